"""Hugging Face directories give what transformers makes of them."""

import json
import shutil

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.weights.published import (
  GOLDEN,
  change,
  change_tensors,
  expected,
  folder,
  outputs,
  outputs_at,
  relative_error,
)
from vit_jax.errors import UserError
from vit_jax.weights.spellings import huggingface

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
  "huggingface_siglip_classifier",
]


@pytest.fixture
def vit(tmp_path):
  """A copy of the ViT's directory, to be changed."""
  return shutil.copytree(GOLDEN / "huggingface_vit", tmp_path / "vit")


@pytest.fixture
def bit(tmp_path):
  """A copy of the BiT's directory, to be changed."""
  return shutil.copytree(folder("huggingface_bit"), tmp_path / "bit")


def refusal(directory) -> str:
  with pytest.raises(UserError) as caught:
    huggingface.read(directory)
  return str(caught.value)


def equal(one, other) -> bool:
  return jax.tree.all(jax.tree.map(np.array_equal, one, other))


@pytest.mark.parametrize("name", FIXTURES)
def test_outputs_are_those_of_transformers(name):
  weights = huggingface.read(folder(name))
  wanted = expected(name)
  found = outputs(weights, wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


@pytest.mark.parametrize(
  "name",
  [
    "huggingface_vit",
    "huggingface_deit_teacher",
    "huggingface_dino",
    "huggingface_dinov2",
    "huggingface_dinov2_registers",
    "huggingface_dinov2_classifier",
  ],
)
def test_larger_images_give_what_transformers_gives(name):
  wanted = expected(name)
  found = outputs_at(name, 24, wanted["images_24"])
  assert relative_error(found, wanted["outputs_24"]) < 1e-5


def test_constants_of_the_standardised_convolutions_matter():
  name = "huggingface_bit"
  weights = huggingface.read(folder(name))
  wanted = expected(name)
  google = weights.model.model_copy(update={"standardization": "google"})
  images = wanted["images"]
  found = outputs(weights, images, model=google)
  assert relative_error(found, wanted["outputs"]) > 1e-5


def test_config_and_preprocessor_tell_the_architecture():
  model = huggingface.read(GOLDEN / "huggingface_vit_without_bias").model
  assert model.gelu == "exact"
  assert model.layer_norm_eps == 1e-12
  assert not model.qkv_bias
  assert model.num_classes == 3
  assert model.image_size == 16
  assert model.pos_embedding_resize == "bicubic"
  assert model.normalize == "clip"


def test_names_of_classes_are_read_in_the_order_of_the_outputs():
  weights = huggingface.read(GOLDEN / "huggingface_vit")
  assert weights.class_names == ("ant", "bee", "cat: a pet", "dog", "eel")


def test_numbered_labels_are_no_names():
  weights = huggingface.read(GOLDEN / "huggingface_vit_without_bias")
  assert weights.class_names is None


def test_what_is_left_out_of_the_file_is_said():
  notes = huggingface.read(GOLDEN / "huggingface_mae").assumed
  assert any(
    "decoder (24 tensors) is not part of the network" in note for note in notes
  )


def test_missing_preprocessor_is_said(vit):
  (vit / "preprocessor_config.json").unlink()
  weights = huggingface.read(vit)
  assert weights.model.normalize == "minus_one_to_one"
  assert "preprocessor_config.json" in weights.assumed[0]


def test_the_file_itself_may_be_named(vit):
  by_file = huggingface.read(vit / "model.safetensors")
  assert equal(by_file.params, huggingface.read(vit).params)


NEW_NAMES = (
  ("encoder.layer.", "layers."),
  ("attention.attention.query", "attention.q_proj"),
  ("attention.attention.key", "attention.k_proj"),
  ("attention.attention.value", "attention.v_proj"),
  ("attention.output.dense", "attention.o_proj"),
  ("intermediate.dense", "mlp.fc1"),
  ("output.dense", "mlp.fc2"),
)


def newer(name: str) -> str:
  for old, new in NEW_NAMES:
    name = name.replace(old, new)
  return name


def test_newer_names_are_the_same_parameters(vit):
  wanted = huggingface.read(vit).params
  change_tensors(vit, lambda x: {newer(name): x[name] for name in x})
  assert "vit.layers.1.mlp.fc2.bias" in load_file(vit / "model.safetensors")
  assert equal(huggingface.read(vit).params, wanted)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_floats_become_float32(vit, dtype):
  wanted = huggingface.read(vit).params["cls"]
  change_tensors(vit, lambda x: {n: a.astype(dtype) for n, a in x.items()})
  found = huggingface.read(vit).params["cls"]
  assert found.dtype == np.float32
  np.testing.assert_array_equal(found, wanted.astype(dtype).astype(np.float32))


@pytest.mark.parametrize(
  "values, words",
  [
    ({"hidden_act": "relu"}, ["hidden_act", "relu"]),
    ({"image_size": [16, 24]}, ["image_size", "[16, 24]", "square"]),
    ({"patch_size": [4, 2]}, ["patch_size", "[4, 2]", "is not 4"]),
    ({"num_channels": 1}, ["num_channels = 1", "three channels"]),
    ({"num_attention_heads": 5}, ["num_attention_heads", "5", "32"]),
    ({"head_dim": 16}, ["head_dim", "16", "8"]),
    ({"hidden_size": "768"}, ["hidden_size", "768", "whole number"]),
    ({"hidden_size": True}, ["hidden_size", "true"]),
    ({"hidden_size": -1}, ["hidden_size", "-1"]),
    ({"num_hidden_layers": 10**9}, ["num_hidden_layers", "1000000000"]),
    ({"layer_norm_eps": 0}, ["layer_norm_eps", "0"]),
    ({"qkv_bias": "no"}, ["qkv_bias", '"no"']),
    ({"image_size": 2}, ["image_size = 2", "is not 16"]),
    ({"model_type": "levit"}, ["model_type", "levit", "vit, deit"]),
    ({"model_type": None}, ["config.json", "model_type"]),
    ({"id2label": [1]}, ["id2label"]),
  ],
)
def test_config_that_is_not_ours_is_named(vit, values, words):
  change(vit, **values)
  message = refusal(vit)
  assert all(word in message for word in words), message


@pytest.mark.parametrize(
  "values, words",
  [
    ({"layer_type": "bottleneck"}, ["layer_type", "preactivation"]),
    ({"global_padding": "SAME"}, ["global_padding", "SAME"]),
    ({"width_factor": 2}, ["width_factor"]),
    ({"output_stride": 4}, ["output_stride", "8"]),
    ({"hidden_sizes": [128, 512]}, ["hidden_sizes", "[128, 256]"]),
    ({"depths": []}, ["depths"]),
    ({"depths": [1, 0]}, ["depths", "0"]),
  ],
)
def test_bit_that_is_not_ours_is_named(bit, values, words):
  change(bit, **values)
  message = refusal(bit)
  assert all(word in message for word in words), message


def test_distillation_token_without_a_head_is_kept():
  weights = huggingface.read(GOLDEN / "huggingface_deit_distilled")
  assert weights.model.distillation == "token"
  assert "dist" in weights.params and "head_dist" not in weights.params


def test_pooler_of_a_deit_is_left_out_and_said(tmp_path):
  path = shutil.copytree(GOLDEN / "huggingface_deit_distilled", tmp_path / "x")
  square, row = np.ones((32, 32), np.float32), np.ones(32, np.float32)
  pooler = {"pooler.dense.weight": square, "pooler.dense.bias": row}
  change_tensors(path, lambda tensors: tensors | pooler)
  weights = huggingface.read(path)
  assert any("pooler" in note for note in weights.assumed)
  wanted = expected("huggingface_deit_distilled")
  found = outputs(weights, wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


# Values of hidden_act and our names, from transformers/activations.py.
ACTIVATIONS = {
  "gelu": "exact",
  "gelu_python": "exact",
  "gelu_accurate": "tanh",
  "gelu_fast": "tanh",
  "gelu_new": "tanh",
  "gelu_python_tanh": "tanh",
  "gelu_pytorch_tanh": "tanh",
  "quick_gelu": "quick",
}


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize(
  "name", ["huggingface_vit", "huggingface_dinov2", "huggingface_beit"]
)
def test_all_forms_of_the_gelu_are_read(tmp_path, name, act):
  path = shutil.copytree(folder(name), tmp_path / "x")
  change(path, hidden_act=act)
  assert huggingface.read(path).model.gelu == ACTIVATIONS[act]


def test_other_pooler_than_tanh_is_refused(tmp_path):
  pooler = shutil.copytree(GOLDEN / "huggingface_vit_pooler", tmp_path / "x")
  change(pooler, pooler_act="relu")
  assert "pooler_act" in refusal(pooler)


@pytest.mark.parametrize(
  "processor, key",
  [
    ({}, "minus_one_to_one"),
    ({"image_mean": 0.5, "image_std": [0.5]}, "minus_one_to_one"),
    ({"do_normalize": False}, "0.0,0.0,0.0/1.0,1.0,1.0"),
    ({"rescale_factor": 2 / 255}, "0.25,0.25,0.25/0.25,0.25,0.25"),
  ],
)
def test_statistics_of_pixels_become_the_key(vit, processor, key):
  path = vit / "preprocessor_config.json"
  path.write_text(json.dumps(processor))
  assert huggingface.read(vit).model.normalize == key


@pytest.mark.parametrize(
  "processor",
  [
    {"image_mean": [0.5, 0.5]},
    {"image_std": [0, 0, 0]},
    {"image_mean": "0.5"},
    {"image_mean": [0.5, 0.5, float("nan")]},
    {"rescale_factor": 0},
    {"do_normalize": "yes"},
  ],
)
def test_statistics_that_are_none_are_named(vit, processor):
  path = vit / "preprocessor_config.json"
  path.write_text(json.dumps(processor))
  assert "preprocessor_config.json" in refusal(vit)


def test_size_of_bit_is_that_of_the_crop(bit):
  assert huggingface.read(bit).model.image_size == 34
  change(bit, "preprocessor_config.json", do_center_crop=False)
  assert huggingface.read(bit).model.image_size == 36
  change(bit, "preprocessor_config.json", size=None)
  weights = huggingface.read(bit)
  assert weights.model.image_size == 224
  assert "size" in weights.assumed[0]


@pytest.mark.parametrize(
  "spoil, words",
  [
    (
      lambda x: {n: a for n, a in x.items() if "layer.1.output" not in n},
      ["encoder.layer.1.output.dense.weight", "not there", "(32, 48)"],
    ),
    (
      lambda x: x | {"vit.encoder.layer.0.gamma": np.ones(3, np.float32)},
      ["encoder.layer.0.gamma", "(3,)"],
    ),
    (
      lambda x: x | {"classifier.weight": np.ones((5, 31), np.float32)},
      ["classifier.weight", "(5, 31)", "(5, 32)"],
    ),
    (
      lambda x: x | {"classifier.weight": np.float32([1])},
      ["classifier.weight", "(1,)"],
    ),
    (
      lambda x: x | {"embeddings.cls_token": x["vit.embeddings.cls_token"]},
      ["embeddings.cls_token", "twice"],
    ),
  ],
)
def test_tensors_that_do_not_fit_are_named(vit, spoil, words):
  change_tensors(vit, spoil)
  message = refusal(vit)
  assert all(word in message for word in words), message


def test_missing_config_is_named(vit):
  (vit / "config.json").unlink()
  assert "config.json" in refusal(vit)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 10**5])
def test_broken_config_is_named(vit, text):
  (vit / "config.json").write_bytes(text)
  assert "config.json" in refusal(vit)


DINOV2_NEW_NAMES = (
  ("attention.attention.query", "attention.q_proj"),
  ("attention.attention.key", "attention.k_proj"),
  ("attention.attention.value", "attention.v_proj"),
  ("attention.output.dense", "attention.o_proj"),
  ("weights_out", "down_proj"),
)


def test_newer_names_of_dinov2_are_the_same_parameters(tmp_path):
  name = "huggingface_dinov2_registers"
  directory = shutil.copytree(folder(name), tmp_path / "x")
  wanted = huggingface.read(directory)

  def rename(tensors):
    found = {}
    for name, tensor in tensors.items():
      for old, new in DINOV2_NEW_NAMES:
        name = name.replace(old, new)
      if "weights_in" in name:
        for part, half in zip(("gate", "up"), np.split(tensor, 2), strict=True):
          found[name.replace("weights_in", f"{part}_proj")] = half.copy()
      else:
        found[name] = tensor
    return found

  change_tensors(directory, rename)
  assert equal(huggingface.read(directory).params, wanted.params)
  assert wanted.model.registers == 3 and wanted.model.mlp == "swiglu"
  assert wanted.model.layer_norm_eps == 1e-6
  assert wanted.beside["mask_token"].shape == (1, 1, 16)


def test_a_classifier_of_dinov2_reads_the_class_token_and_the_mean():
  weights = huggingface.read(GOLDEN / "huggingface_dinov2_classifier")
  assert weights.model.pool == "cls_gap" and weights.model.registers == 2
  assert weights.params["head"]["kernel"].shape == (32, 5)
  assert weights.class_names == ("ant", "bee", "cat: a pet", "dog", "eel")


def test_registers_may_be_none(tmp_path):
  """Both kinds of DINOv2 are then the same network, but for other sizes."""
  name = "huggingface_dinov2"
  directory = shutil.copytree(GOLDEN / name, tmp_path / "x")
  none = {"embeddings.register_tokens": np.zeros((1, 0, 16), np.float32)}
  change_tensors(directory, lambda x: x | none)
  change(directory, model_type="dinov2_with_registers", num_register_tokens=0)
  weights = huggingface.read(directory)
  assert weights.model.registers == 0
  assert weights.model.pos_embedding_resize == "bicubic_antialias"
  wanted = expected(name)
  found = outputs(weights, wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5
