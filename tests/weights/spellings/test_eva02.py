"""Checkpoints of EVA-02 by timm and by its authors."""

import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import vit_jax
from tests.models.networks import random_params
from tests.weights.published import (
  GOLDEN,
  expected,
  outputs,
  outputs_at,
  relative_error,
)
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes
from vit_jax.weights import files, torch_file
from vit_jax.weights.spellings.vit.eva02 import ORIGINAL

HERE = GOLDEN / "eva02"


def authors(name):
  (tensors,) = torch_file.read(HERE / f"{name}.pt").values()
  return tensors


@pytest.mark.parametrize("name", ["timm_eva02", "timm_eva02_sub_norm"])
def test_outputs_are_those_of_timm(name):
  weights, wanted = files.read(str(GOLDEN / name)), expected(name)
  model = weights.model
  assert (model.rope, model.rope_grid, model.key_bias) == (True, 16, False)
  assert (model.mlp, model.mlp_norm) == ("swiglu", "sub_norm" in name)
  assert (model.pool, model.norm_after_pool, model.cls_token) == (
    "gap",
    True,
    True,
  )
  assert (model.num_classes is None) == ("sub_norm" in name)
  assert model.normalize == "clip" and not weights.assumed
  found = outputs(weights, wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5
  # In the network, and on loading.
  found = outputs(weights, wanted["images_20"])
  assert relative_error(found, wanted["outputs_20"]) < 1e-5
  found = outputs_at(name, 20, wanted["images_20"])
  assert relative_error(found, wanted["outputs_20"]) < 1e-5
  plain = model.model_copy(update={"rope": False})
  found = outputs(weights, wanted["images"], plain)
  assert relative_error(found, wanted["outputs"]) > 1e-3


@pytest.mark.parametrize("name", ["finetuned", "pretraining"])
def test_authors_files_compute_what_torch_does(name):
  weights = files.read(str(HERE / f"{name}.pt"))
  wanted = np.load(HERE / f"expected_{name}.npz")
  assert weights.model.norm_after_pool == (name == "finetuned")
  assert weights.model.pos_embedding_resize == "bicubic"
  # Heads of 8 units are told by the angles.
  assert sizes.vit(weights.model).num_heads == 2
  for size in ("", "_20"):
    found = outputs(weights, wanted[f"images{size}"])
    assert relative_error(found, wanted[f"outputs{size}"]) < 1e-5


def test_buffers_of_torchscript_are_no_parameters():
  tensors = load_file(GOLDEN / "timm_eva02" / "model.safetensors")
  wanted = ORIGINAL.prepare(tensors, "x.pt", [])
  buffers = {
    "rope.bands": np.ones(2, np.float32),
    "rope.pos_embed": np.ones((16, 16), np.float32),
    "blocks.0.attn.k_bias": np.zeros(16, np.float32),
  }
  assert ORIGINAL.prepare(tensors | buffers, "x.pt", []).keys() == wanted.keys()
  # A bias that adds something is not dropped.
  learned = {"blocks.0.attn.k_bias": np.ones(16, np.float32)}
  assert learned.keys() <= ORIGINAL.prepare(learned, "x.pt", []).keys()


def test_what_learned_to_predict_comes_beside_the_network():
  weights = files.read(str(HERE / "pretraining.pt"))
  tensors = authors("pretraining")
  np.testing.assert_array_equal(
    weights.beside["mask_token"], np.full((1, 1, 16), 0.5)
  )
  kernel = weights.beside["patch_head"]["kernel"]
  np.testing.assert_array_equal(kernel, tensors["lm_head.weight"].T)
  assert "prediction head (2 tensors)" in " ".join(weights.assumed)
  assert not files.read(str(HERE / "finetuned.pt")).beside


@pytest.mark.parametrize("grid", [3, 5])
def test_angles_that_were_never_scaled_are_told(grid):
  tensors = dict(authors("finetuned"))
  places = np.arange(grid) * np.float32([[1.0], [0.01]])
  turns = np.zeros((grid, grid, 8))
  for row in range(grid):
    for column in range(grid):
      turns[row, column] = np.repeat(places[:, [row, column]].T.ravel(), 2)
  tensors["rope.freqs_cos"] = np.cos(turns)
  assert ORIGINAL.told(tensors, "x.pt") == {"rope_grid": None, "num_heads": 2}
  tensors["rope.freqs_cos"] = np.cos(turns * 1.1).reshape(-1, 8)
  words = rf"x.pt: 'rope.freqs_cos' of shape \({grid**2}, 8\) holds other"
  with pytest.raises(UserError, match=words):
    ORIGINAL.told(tensors, "x.pt")
  assert ORIGINAL.told({}, "x.pt") == {}


def rewritten(folder, name, change, **arguments):
  """A fixture of timm's with other tensors and arguments."""
  tensors = load_file(GOLDEN / name / "model.safetensors")
  change(tensors)
  save_file(tensors, folder / "model.safetensors")
  config = json.loads((GOLDEN / name / "config.json").read_text())
  config["model_args"] |= arguments
  (folder / "config.json").write_text(json.dumps(config))
  return str(folder)


def test_other_networks_of_its_kind_are_refused(tmp_path):
  def with_inner_norm(tensors):
    tensors["blocks.0.attn.norm.weight"] = np.ones(16, np.float32)

  path = rewritten(tmp_path, "timm_eva02", with_inner_norm)
  with pytest.raises(UserError, match=r"attn.norm.weight'\), as EVA-02-CLIP"):
    files.read(path)

  def without_gates(tensors):
    for leaf in ("weight", "bias"):
      name = f"blocks.0.mlp.fc1.{leaf}"
      tensors[name] = tensors[name][:42].copy()

  path = rewritten(tmp_path, "timm_eva02", without_gates)
  with pytest.raises(UserError, match="without a gate, which is not"):
    files.read(path)


def test_arguments_of_timm_change_the_positions(tmp_path):
  path = rewritten(
    tmp_path, "timm_eva02", lambda tensors: None, ref_feat_shape=[8, 8]
  )
  assert files.read(path).model.rope_grid == 8
  path = rewritten(
    tmp_path, "timm_eva02", lambda tensors: None, use_rot_pos_emb=False
  )
  assert not files.read(path).model.rope
  path = rewritten(
    tmp_path, "timm_eva02", lambda tensors: None, ref_feat_shape=None
  )
  assert files.read(path).model.rope_grid is None


def test_npz_holds_all_of_it_and_hugging_faces_form_refuses(tmp_path):
  model, params = vit_jax.load(str(GOLDEN / "timm_eva02_sub_norm"))
  path = tmp_path / "eva02.npz"
  vit_jax.save(str(path), model, params)
  back, restored = vit_jax.load(str(path))
  assert back == model
  jax.tree.map(np.testing.assert_array_equal, restored, params)
  # Of DINOv2's kind for its SwiGLU; of ViT's without.
  without = model.clone(mlp="gelu")
  for network, its in ((model, params), (without, random_params(without))):
    with pytest.raises(UserError, match="cannot have model.rope=True"):
      place = str(tmp_path / "huggingface")
      vit_jax.save(place, network, its, form="huggingface")
