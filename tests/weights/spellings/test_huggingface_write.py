"""Written directories are those that transformers writes itself.

The fixtures stand for transformers: names, shapes and keys must be theirs.
"""

import dataclasses
import errno
import json

import jax
import numpy as np
import pytest
from etils import epath
from safetensors.numpy import load_file

from tests.weights.published import (
  GOLDEN,
  expected,
  folder,
  outputs,
  relative_error,
)
from vit_jax.errors import UserError
from vit_jax.weights import files, stacking, tensors
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface, timm

FIXTURES = [
  "huggingface_vit",
  "huggingface_vit_without_bias",
  "huggingface_vit_pooler",
  "huggingface_deit",
  "huggingface_deit_distilled",
  "huggingface_deit_teacher",
  "huggingface_mae",
  "huggingface_bit",
  "huggingface_dino",
  "huggingface_dinov2",
  "huggingface_dinov2_registers",
  "huggingface_dinov2_classifier",
  "huggingface_beit",
]


@pytest.fixture
def vit() -> Weights:
  return huggingface.read(GOLDEN / "huggingface_vit")


@pytest.fixture
def bit() -> Weights:
  return huggingface.read(folder("huggingface_bit"))


def changed(weights: Weights, **keys) -> Weights:
  model = weights.model.model_copy(update=keys)
  return dataclasses.replace(weights, model=model)


def json_of(directory, name: str) -> dict:
  return json.loads((directory / name).read_text())


@pytest.mark.parametrize("name", FIXTURES)
def test_what_is_written_is_read_back(tmp_path, name):
  wanted = huggingface.read(folder(name))
  huggingface.write(tmp_path / "out", wanted)
  found = huggingface.read(tmp_path / "out")
  assert found.model == wanted.model
  assert found.class_names == wanted.class_names
  assert found.assumed == ()
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


@pytest.mark.parametrize(
  "name", [name for name in FIXTURES if name != "huggingface_mae"]
)
def test_tensors_are_those_of_transformers(tmp_path, name):
  huggingface.write(tmp_path / "out", huggingface.read(folder(name)))
  found = load_file(tmp_path / "out" / tensors.FILE)
  wanted = tensors.read(epath.Path(folder(name)))
  assert found.keys() == wanted.keys()
  for key, tensor in wanted.items():
    if key.endswith("embeddings.mask_token"):
      tensor = np.zeros_like(tensor)  # No part of the network: as it starts.
    np.testing.assert_array_equal(found[key], tensor)


@pytest.mark.parametrize("name", FIXTURES)
def test_keys_of_the_config_are_those_of_transformers(tmp_path, name):
  huggingface.write(tmp_path / "out", huggingface.read(folder(name)))
  found = json_of(tmp_path / "out", "config.json")
  wanted = json_of(folder(name), "config.json")
  own = {"architectures", "model_type"} if name == "huggingface_mae" else set()
  # Written by transformers, and of nothing that our networks have.
  own |= {"encoder_stride"}
  for key in found.keys() - own:
    assert wanted.get(key) in (None, found[key]), key
  assert {"hidden_sizes", "hidden_size"} & found.keys()


def test_layer_scale_and_missing_positions_are_put_into_what_a_vit_has(
  tmp_path,
):
  weights = timm.read(GOLDEN / "timm_deit3")
  huggingface.write(tmp_path / "out", weights)
  found = huggingface.read(tmp_path / "out")
  assert found.model.layer_scale is None and found.model.cls_position
  images = expected("timm_deit3")["images"]
  assert relative_error(outputs(found, images), outputs(weights, images)) < 1e-5


@pytest.mark.parametrize("name", ["huggingface_vit", "huggingface_dinov2"])
def test_keys_without_a_bias_get_one_of_zeros(tmp_path, name):
  weights = huggingface.read(folder(name))
  params = jax.tree.map(np.asarray, weights.params)
  for block in params["Transformer"].values():
    if attention := block.get("MultiHeadDotProductAttention_0"):
      del attention["key"]["bias"]
  without = dataclasses.replace(weights, params=params)
  without = changed(without, key_bias=False)
  huggingface.write(tmp_path / "out", without)
  found = huggingface.read(tmp_path / "out")
  assert found.model.key_bias
  images = expected(name)["images"]
  assert relative_error(outputs(found, images), outputs(without, images)) == 0


def test_mean_of_two_tokens_without_heads_is_refused(tmp_path):
  weights = timm.read(GOLDEN / "timm_deit_distilled")
  del weights.params["head"], weights.params["head_dist"]
  with pytest.raises(UserError, match="Hugging Face's DeiT cannot have"):
    huggingface.write(tmp_path / "out", changed(weights, num_classes=None))


def test_classes_without_names_are_counted(tmp_path, vit):
  nameless = dataclasses.replace(vit, class_names=None)
  huggingface.write(tmp_path / "out", nameless)
  config = json_of(tmp_path / "out", "config.json")
  assert list(config["id2label"].values()) == [f"LABEL_{i}" for i in range(5)]
  assert huggingface.read(tmp_path / "out").class_names is None


def test_preprocessor_has_statistics_and_size(tmp_path, vit):
  weights = changed(vit, normalize="imagenet")
  huggingface.write(tmp_path / "out", weights)
  config = json_of(tmp_path / "out", "preprocessor_config.json")
  assert config["image_mean"] == [0.485, 0.456, 0.406]
  assert config["image_std"] == [0.229, 0.224, 0.225]
  assert config["size"] == {"height": 16, "width": 16}


def test_gelu_by_tanh_is_named(tmp_path, vit):
  huggingface.write(tmp_path / "out", changed(vit, gelu="tanh"))
  config = json_of(tmp_path / "out", "config.json")
  assert config["hidden_act"] == "gelu_pytorch_tanh"


def test_stacked_layers_are_taken_apart(tmp_path, vit):
  stacked = dataclasses.replace(vit, params=stacking.stack_layers(vit.params))
  huggingface.write(tmp_path / "out", changed(stacked, scan_layers=True))
  found = huggingface.read(tmp_path / "out").params
  jax.tree.map(np.testing.assert_array_equal, found, vit.params)


def test_a_class_token_without_a_position_gets_one_of_zeros(tmp_path, vit):
  params = jax.tree.map(np.asarray, vit.params)
  positions = params["Transformer"]["posembed_input"]
  positions["pos_embedding"] = positions["pos_embedding"][:, 1:]
  weights = changed(dataclasses.replace(vit, params=params), cls_position=False)
  images = expected("huggingface_vit")["images"]
  wanted = outputs(weights, images)
  huggingface.write(tmp_path / "out", weights)
  written = huggingface.read(tmp_path / "out")
  assert written.model.cls_position
  assert relative_error(outputs(written, images), wanted) < 1e-6


def test_original_bit_computes_the_same_with_larger_constants(
  tmp_path, bit, caplog
):
  google = changed(bit, standardization="google")
  images = expected("huggingface_bit")["images"]
  wanted = outputs(google, images)
  with caplog.at_level("WARNING"):
    huggingface.write(tmp_path / "out", google)
  assert "ten times as large" in caplog.text
  written = huggingface.read(tmp_path / "out")
  assert written.model.standardization == "torch"
  assert relative_error(outputs(written, images), wanted) < 1e-5
  # The constants are of consequence here.
  assert relative_error(outputs(bit, images), wanted) > 1e-5


@pytest.mark.parametrize(
  "keys, words",
  [
    ({"pool": "gap"}, "model.pool='gap'"),
    ({"pool": "map"}, "model.pool='map'"),
    ({"cls_token": True, "pool": "gap"}, "model.pool='gap'"),
    ({"norm_after_pool": True}, "norm_after_pool"),
    ({"pre_norm": True}, "model.pre_norm=True"),
    ({"mlp_norm": True}, "model.mlp_norm=True"),
    ({"patch_bias": False}, "model.patch_bias=False"),
    ({"pos_embedding": "learned_2d"}, "learned_2d"),
    ({"pos_embedding": "sincos2d"}, "sincos2d"),
    ({"pos_embedding_at": "every_layer"}, "every_layer"),
    ({"representation_size": 32}, "pre_logits"),
    ({"representation_size": "width"}, "pre_logits"),
    ({"stem_blocks": (1,)}, "hybrid"),
  ],
)
def test_what_transformers_cannot_have_is_named(tmp_path, vit, keys, words):
  with pytest.raises(UserError, match=words) as caught:
    huggingface.write(tmp_path / "out", changed(vit, **keys))
  assert ".npz" in str(caught.value)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  "name",
  [
    "huggingface_deit",
    "huggingface_vit",
    "huggingface_beit",
    "huggingface_dinov2",
  ],
)
def test_the_quick_gelu_is_that_of_transformers(tmp_path, name):
  weights = changed(huggingface.read(GOLDEN / name), gelu="quick")
  huggingface.write(tmp_path / "out", weights)
  # The key of transformers' ACT2FN for x sigmoid(1.702 x).
  assert json_of(tmp_path / "out", "config.json")["hidden_act"] == "quick_gelu"
  assert huggingface.read(tmp_path / "out").model == weights.model


def test_a_parameter_without_a_name_in_pytorch_is_never_written(tmp_path, vit):
  params = {**vit.params, "extra": {"scale": np.ones(3, np.float32)}}
  with pytest.raises(UserError, match="no tensor for .*'extra/scale'.*npz"):
    huggingface.write(tmp_path / "x", dataclasses.replace(vit, params=params))
  assert not list(tmp_path.iterdir())


def test_hybrids_of_timm_are_refused(tmp_path):
  with pytest.raises(UserError, match="stem"):
    huggingface.write(tmp_path / "x", timm.read(folder("timm_hybrid")))


def test_plain_vits_of_timm_become_hugging_faces(tmp_path):
  wanted = expected("timm_vit")
  huggingface.write(tmp_path / "x", timm.read(GOLDEN / "timm_vit"))
  found = outputs(huggingface.read(tmp_path / "x"), wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


def test_nothing_is_overwritten(tmp_path, vit):
  (tmp_path / "file").write_text("mine")
  (tmp_path / "full").mkdir()
  (tmp_path / "full" / "file").write_text("mine")
  for name in ("file", "full"):
    with pytest.raises(UserError, match=f"{name} exists"):
      huggingface.write(tmp_path / name, vit)
  assert (tmp_path / "full" / "file").read_text() == "mine"
  assert len(list(tmp_path.iterdir())) == 2


def test_directory_holds_the_card_too(tmp_path, vit):
  huggingface.write(tmp_path / "out", vit, "# Ants and bees\n")
  assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
    "README.md",
    "config.json",
    "model.safetensors",
    "preprocessor_config.json",
  ]
  assert (tmp_path / "out" / "README.md").read_text() == "# Ants and bees\n"


def test_full_disk_leaves_nothing_behind(tmp_path, vit, monkeypatch):
  def fail(path, found):
    path.write_bytes(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")

  monkeypatch.setattr(tensors, "write", fail)
  with pytest.raises(UserError, match="out cannot be written .No space left"):
    huggingface.write(tmp_path / "out", vit)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  "name, kind",
  [
    ("timm_dinov2_registers", "dinov2_with_registers"),
    ("dino/dinov2.pth", "dinov2"),
    ("dino/dino.pth", "vit"),
  ],
)
def test_dinos_become_hugging_faces(tmp_path, name, kind):
  weights = files.read(str(folder(name)))
  huggingface.write(tmp_path / "out", weights)
  assert json_of(tmp_path / "out", "config.json")["model_type"] == kind
  found = huggingface.read(tmp_path / "out")
  assert found.model.registers == weights.model.registers
  images = expected("timm_dinov2_registers")["images"]
  assert relative_error(outputs(found, images), outputs(weights, images)) < 1e-6


def test_registers_without_layer_scale_get_factors_of_one(tmp_path):
  name = "huggingface_dinov2_registers"
  weights = huggingface.read(folder(name))
  params = jax.tree.map(np.asarray, weights.params)
  block = params["Transformer"]["encoderblock_0"]
  del block["layer_scale_0"], block["layer_scale_1"]
  weights = changed(
    dataclasses.replace(weights, params=params), layer_scale=None
  )
  huggingface.write(tmp_path / "out", weights)
  found = load_file(tmp_path / "out" / tensors.FILE)
  np.testing.assert_array_equal(
    found["encoder.layer.0.layer_scale2.lambda1"], 1
  )
  images = expected(name)["images"]
  written = outputs(huggingface.read(tmp_path / "out"), images)
  assert relative_error(written, outputs(weights, images)) < 1e-6


@pytest.mark.parametrize(
  "keys, words",
  [
    ({"pool": "gap"}, "DINOv2 cannot have model.pool='gap'"),
    ({"mlp_norm": True}, "mlp_norm=True"),
    ({"pre_norm": True}, "pre_norm=True"),
    ({"patch_bias": False}, "patch_bias=False"),
    ({"norm_after_pool": True}, "norm_after_pool=True"),
    ({"representation_size": 16}, "representation_size=16"),
    ({"pos_embedding": "sincos2d"}, "'sincos2d' at 'stem'"),
    ({"distillation": "token"}, "distillation='token'"),
    ({"stem_blocks": (1,)}, "hybrid"),
    ({"mlp_dim": 17}, "mlp_dim=17.*width 16"),
    ({"num_classes": 5}, "registers=3.*mlp='swiglu'"),
  ],
)
def test_what_hugging_faces_dinov2_cannot_have_is_named(tmp_path, keys, words):
  weights = huggingface.read(GOLDEN / "huggingface_dinov2_registers")
  with pytest.raises(UserError, match=words):
    huggingface.write(tmp_path / "out", changed(weights, **keys))
