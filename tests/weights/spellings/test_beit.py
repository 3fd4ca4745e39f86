"""Checkpoints of BEiT, in the forms of Hugging Face, timm and the authors."""

import dataclasses
import json
import re
import shutil

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import vit_jax
from tests.weights.published import (
  GOLDEN,
  expected,
  outputs,
  outputs_at,
  relative_error,
)
from vit_jax import trees
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.weights import files, surgery
from vit_jax.weights.spellings import huggingface, names
from vit_jax.weights.spellings.vit import beit

PRETRAINING = GOLDEN / "huggingface_beit_pretraining"
# Names of Hugging Face and of the authors.
AUTHORS = (
  ("beit.embeddings.patch_embeddings.projection", "patch_embed.proj"),
  ("beit.embeddings.", ""),
  ("beit.encoder.relative_position_bias.", "rel_pos_bias."),
  ("attention.attention.relative_position_bias.", "attn."),
  ("beit.encoder.layer.", "blocks."),
  ("layernorm_before", "norm1"),
  ("layernorm_after", "norm2"),
  ("attention.attention.query.bias", "attn.q_bias"),
  ("attention.attention.value.bias", "attn.v_bias"),
  ("attention.attention.", "attn."),
  ("attention.output.dense", "attn.proj"),
  ("intermediate.dense", "mlp.fc1"),
  ("output.dense", "mlp.fc2"),
  ("lambda_", "gamma_"),
  ("beit.pooler.layernorm", "fc_norm"),
  ("layernorm", "norm"),
  ("classifier", "head"),
)


def of_the_authors(folder):
  """A folder's tensors as the authors' own files have them."""
  found = {}
  for name, tensor in load_file(folder / "model.safetensors").items():
    for theirs, authors in AUTHORS:
      name = name.replace(theirs, authors)
    found[name] = tensor
  for layer in range(2):
    parts = [
      found.pop(f"blocks.{layer}.attn.{name}.weight")
      for name in ("query", "key", "value")
    ]
    found[f"blocks.{layer}.attn.qkv.weight"] = np.concatenate(parts)
  return found


@pytest.mark.parametrize("name", ["huggingface_beit", "timm_beit"])
def test_outputs_are_those_of_the_reference_at_both_sizes(name):
  weights, wanted = files.read(str(GOLDEN / name)), expected(name)
  found = outputs(weights, wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5
  images = wanted["images_24"]
  for found in (outputs(weights, images), outputs_at(name, 24, images)):
    assert relative_error(found, wanted["outputs_24"]) < 1e-5
  other = {"pos_embedding_resize": "bicubic"}
  found = outputs(weights, images, weights.model.model_copy(update=other))
  assert relative_error(found, wanted["outputs_24"]) > 1e-4


def test_parts_of_beit_are_told():
  of_theirs = files.read(str(GOLDEN / "huggingface_beit"))
  model = of_theirs.model
  assert (model.pool, model.cls_token, model.norm_after_pool) == (
    ("gap", True, True)
  )
  assert (model.pos_embedding_at, model.key_bias) == ("every_layer", False)
  assert model.layer_scale == 0.1 and model.layer_norm_eps == 1e-12
  assert of_theirs.class_names[2] == "cat: a pet" and not of_theirs.beside
  model = files.read(str(GOLDEN / "timm_beit")).model
  assert (model.pool, model.num_heads, model.normalize) == (
    "gap",
    4,
    "imagenet",
  )
  assert model.layer_norm_eps == 1e-6


@pytest.mark.parametrize("size", ["", "_24"])
def test_tokens_and_head_predict_what_the_reference_does(size):
  wanted = expected(PRETRAINING.name)
  network, params = vit_jax.load(str(PRETRAINING), pretraining=True)
  head = params["patch_head"]
  found = vit_jax.features(network, params, wanted[f"images{size}"])
  logits = np.asarray(found["tokens"])[:, 1:] @ np.asarray(head["kernel"])
  logits += np.asarray(head["bias"])
  assert relative_error(logits, wanted[f"outputs{size}"]) < 1e-5
  theirs = load_file(PRETRAINING / "model.safetensors")
  np.testing.assert_array_equal(
    params["mask_token"], theirs["beit.embeddings.mask_token"]
  )
  assert network.pos_embedding_at == "every_layer_shared"
  np.testing.assert_array_equal(found["pooled"], found["tokens"][:, 0])


def test_a_network_without_a_head_is_written_as_beit_model(tmp_path):
  wanted = huggingface.read(PRETRAINING)
  huggingface.write(tmp_path / "out", wanted)
  config = json.loads((tmp_path / "out" / "config.json").read_text())
  assert config["architectures"] == ["BeitModel"]
  assert not config["use_mean_pooling"]
  found = huggingface.read(tmp_path / "out")
  assert found.model == wanted.model and not found.beside
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


def test_newer_names_are_understood(tmp_path):
  path = shutil.copytree(GOLDEN / "huggingface_beit", tmp_path / "new")
  newer = {
    "encoder.layer.": "layers.",
    "attention.attention.relative_position_bias.": "relative_position_bias.",
    "attention.attention.query.": "attention.q_proj.",
    "attention.attention.key.": "attention.k_proj.",
    "attention.attention.value.": "attention.v_proj.",
    "attention.output.dense.": "attention.o_proj.",
    "intermediate.dense.": "mlp.fc1.",
    "output.dense.": "mlp.fc2.",
  }
  tensors = {}
  for name, tensor in load_file(path / "model.safetensors").items():
    for old, new in newer.items():
      name = name.replace(old, new)
    tensors[name] = tensor
  # Older versions save it too.
  index = "layers.0.relative_position_bias.relative_position_index"
  tensors[f"beit.{index}"] = np.zeros((17, 17), np.int64)
  save_file(tensors, path / "model.safetensors")
  found = huggingface.read(path)
  wanted = huggingface.read(GOLDEN / "huggingface_beit")
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


@pytest.mark.parametrize("name", ["huggingface_beit", PRETRAINING.name])
def test_the_authors_names_hold_the_same_network(name):
  wanted = huggingface.read(GOLDEN / name)
  tensors, notes = of_the_authors(GOLDEN / name), []
  tensors["cls_pt_layers.0.gamma_1"] = np.ones(16, np.float32)
  said = beit.ORIGINAL.said(tensors, "x.pth", [])
  assert any(mark in tensors for mark in beit.ORIGINAL.marks)
  beside, _ = beit.ORIGINAL.beside(tensors, "x.pth")
  found = beit.ORIGINAL.prepare(tensors, "x.pth", notes)
  assert re.search(r"prediction head \(\d tensors\)", " ".join(notes))
  model, params, _ = names.read("x.pth", found, beit.ORIGINAL.names, said)
  jax.tree.map(np.testing.assert_array_equal, params, wanted.params)
  jax.tree.map(np.testing.assert_array_equal, beside, dict(wanted.beside))
  assert model.pool == wanted.model.pool
  assert model.pos_embedding_at == wanted.model.pos_embedding_at
  assert model.normalize == "minus_one_to_one"


@pytest.mark.parametrize("scan_layers", [False, True])
def test_fine_tuning_starts_from_the_shared_table_in_every_layer(scan_layers):
  weights = huggingface.read(PRETRAINING)
  keys = dict(
    pool="gap", cls_token=True, norm_after_pool=True, num_classes=3
  ) | dict(pos_embedding_at="every_layer", scan_layers=scan_layers)
  model = weights.model.model_copy(update=keys)
  network = build.create(model, num_classes=3)
  images = np.zeros((1, 16, 16, 3), np.uint8)
  shapes = jax.eval_shape(network.init, jax.random.key(0), images)["params"]
  shapes = {n: leaf.shape for n, leaf in trees.named_leaves(shapes)}
  fitted = surgery.fit(weights, model, shapes)
  shared = weights.params["Transformer"]["relative_bias"]["table"]
  room = fitted.params["Transformer"]
  assert "relative_bias" not in room
  for layer in range(2):
    table = (
      room["encoderblock"]["relative_bias"]["table"][layer]
      if scan_layers
      else room[f"encoderblock_{layer}"]["relative_bias"]["table"]
    )
    np.testing.assert_array_equal(table, shared)
  assert any("copied into each" in note for note in fitted.notes)


def test_constant_key_biases_of_torchscript_are_no_parameters():
  tensors = of_the_authors(PRETRAINING)
  wanted = beit.ORIGINAL.prepare(tensors, "x.pt", [])
  tensors["blocks.0.attn.k_bias"] = np.zeros(16, np.float32)
  assert beit.ORIGINAL.prepare(tensors, "x.pt", []).keys() == wanted.keys()


def test_what_our_networks_lack_is_refused(tmp_path):
  path = shutil.copytree(PRETRAINING, tmp_path / "x")
  config = json.loads((path / "config.json").read_text())
  for key, value, words in (
    ("use_absolute_position_embeddings", True, "published BEiT"),
    ("use_mean_pooling", False, "one norm after another"),
    ("use_shared_relative_position_bias", False, "is not True"),
  ):
    changed = json.dumps({**config, key: value})
    (path / "config.json").write_text(changed)
    with pytest.raises(UserError, match=f"(?s){key}.*{words}"):
      huggingface.read(path)
  tensors = of_the_authors(PRETRAINING)
  tensors["blocks.0.attn.relative_position_bias_table"] = tensors[
    "rel_pos_bias.relative_position_bias_table"
  ]
  with pytest.raises(UserError, match="either a table in every layer or one"):
    beit.ORIGINAL.prepare(tensors, "x.pth", [])
  with pytest.raises(UserError, match="'pos_embed'"):
    beit.ORIGINAL.prepare(
      {"pos_embed": np.ones((1, 17, 16), np.float32)}, "x.pth", []
    )
  weights = huggingface.read(GOLDEN / "huggingface_beit")
  model = weights.model.model_copy(update={"key_bias": True})
  with pytest.raises(UserError, match="BEiT cannot have model.key_bias=True"):
    huggingface.write(
      tmp_path / "out", dataclasses.replace(weights, model=model)
    )
