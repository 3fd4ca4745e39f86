"""Published ConvNeXts give what transformers and timm make of them."""

import json
import re

import jax
import numpy as np
import pytest
from etils import epath
from safetensors.numpy import load_file, save_file

from tests.weights import torch_zip
from tests.weights.published import (
  GOLDEN,
  change,
  change_tensors,
  expected,
  outputs,
  outputs_at,
  relative_error,
)
from vit_jax.errors import UserError
from vit_jax.models.convnext import sizes
from vit_jax.weights import files, tensors
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface, names, timm
from vit_jax.weights.spellings.registry import ORIGINAL

HUGGING_FACE = ("huggingface_convnext", "huggingface_convnextv2")
TIMM = ("timm_convnext", "timm_convnextv2")
READERS = dict.fromkeys(HUGGING_FACE, huggingface) | dict.fromkeys(TIMM, timm)


@pytest.mark.parametrize("name", READERS)
def test_outputs_are_those_of_the_reference(name):
  wanted = expected(name)
  found = outputs(READERS[name].read(GOLDEN / name), wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


@pytest.mark.parametrize("name", READERS)
def test_larger_images_give_what_the_reference_gives(name):
  wanted = expected(name)
  (key,) = (key for key in wanted if key.startswith("images_"))
  size = wanted[key].shape[1]
  found = outputs_at(name, size, wanted[key])
  assert relative_error(found, wanted[f"outputs_{size}"]) < 1e-5


@pytest.mark.parametrize("name", ["original_convnext", "original_convnextv2"])
def test_names_of_the_authors_give_what_their_networks_give(name):
  record = ORIGINAL.get("convnext")
  found, notes = load_file(GOLDEN / name / tensors.FILE), []
  assert set(record.names.required) <= found.keys()
  prepared = record.prepare(found, name, notes)
  said = record.said(found, name, notes)
  model, params, _ = names.read(name, prepared, record.names, said)
  assert model.normalize == "imagenet"
  wanted = expected(name)
  for suffix in ("", "_70"):
    images = wanted[f"images{suffix}"]
    outs = outputs(Weights(name, model, params), images)
    assert relative_error(outs, wanted[f"outputs{suffix}"]) < 1e-5


def read_without_top(name):
  """The network, its parameters and the notes of a file that ends early."""
  record = ORIGINAL.get("convnext")
  found = {
    tensor: array
    for tensor, array in load_file(GOLDEN / name / tensors.FILE).items()
    if not tensor.startswith(("norm.", "head."))
  }
  notes = []
  prepared = record.prepare(found, name, notes)
  said = record.said(found, name, notes)
  model, params, _ = names.read(name, prepared, record.names, said)
  return model, params, notes


def test_a_masked_autoencoder_has_a_last_norm_of_ones_and_zeros():
  """FCMAE's files end with the last stage; PyTorch starts norms like this."""
  model, params, notes = read_without_top("original_convnextv2")
  assert model.num_classes is None
  width = sizes.convnext(model).widths[-1]
  np.testing.assert_array_equal(params["norm"]["scale"], np.ones(width))
  np.testing.assert_array_equal(params["norm"]["bias"], np.zeros(width))
  assert "neither a last norm nor a head" in " ".join(notes)


def test_a_last_norm_that_version_1_lacks_is_not_invented():
  with pytest.raises(UserError, match="norm.weight *not there"):
    read_without_top("original_convnext")


@pytest.mark.parametrize("name", READERS)
def test_form_and_sizes_are_told(name):
  weights = files.read(str(GOLDEN / name))
  assert weights.model.version == (2 if "v2" in name else 1)
  assert weights.model.normalize == "imagenet"
  size = sizes.convnext(weights.model)
  assert size.stem_stride == (2 if name in HUGGING_FACE else 4)
  if name in HUGGING_FACE:
    assert (size.depths, size.widths) == ((1, 2, 4, 1), (8, 12, 16, 24))
    assert weights.model.image_size == 32
    assert weights.model.layer_norm_eps == 1e-6
    assert weights.model.head_norm_eps == 1e-12
  else:
    assert (size.depths, size.widths) == ((1, 1, 2, 1), (8, 8, 12, 16))
    assert weights.class_names == ("ant", "bee", "cat: a pet", "dog", "eel")
    assert weights.assumed == ()


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_written_directories_are_those_of_transformers(tmp_path, name):
  wanted = huggingface.read(GOLDEN / name)
  huggingface.write(tmp_path / "out", wanted)
  found = huggingface.read(tmp_path / "out")
  assert found.model == wanted.model
  assert found.class_names == wanted.class_names
  assert found.assumed == ()
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)
  theirs = tensors.read(epath.Path(GOLDEN / name))
  ours = load_file(tmp_path / "out" / tensors.FILE)
  assert ours.keys() == theirs.keys()
  for key, tensor in theirs.items():
    np.testing.assert_array_equal(ours[key], tensor)
  config, original = (
    json.loads((directory / "config.json").read_text())
    for directory in (tmp_path / "out", GOLDEN / name)
  )
  for key in config:
    assert original.get(key) in (None, config[key]), key


@pytest.mark.parametrize("name", TIMM)
def test_networks_of_timm_become_hugging_faces(tmp_path, name):
  wanted = expected(name)
  huggingface.write(tmp_path / "x", timm.read(GOLDEN / name))
  found = outputs(huggingface.read(tmp_path / "x"), wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


def test_epsilons_that_transformers_lacks_are_named(tmp_path, copied):
  directory = copied("timm_convnext")
  change(directory, architecture="convnext_xxlarge")
  weights = timm.read(directory)
  assert weights.model.layer_norm_eps == weights.model.head_norm_eps == 1e-5
  with pytest.raises(UserError, match="layer_norm_eps=1e-05.*NAME.npz"):
    huggingface.write(tmp_path / "out", weights)


@pytest.mark.parametrize(
  "values, words",
  [
    ({"hidden_act": "relu"}, ["hidden_act", "relu", "'gelu'"]),
    ({"layer_norm_eps": 0.0}, ["layer_norm_eps", "positive"]),
    ({"depths": [1, 1, 4, 1]}, ["depths", "[1, 2, 4, 1]"]),
    ({"hidden_sizes": [8, 12, 16, 32]}, ["hidden_sizes", "24"]),
    ({"patch_size": 4}, ["patch_size", "is not 2"]),
  ],
)
def test_a_config_of_another_network_is_refused(copied, values, words):
  directory = copied("huggingface_convnext")
  change(directory, **values)
  with pytest.raises(UserError) as caught:
    huggingface.read(directory)
  for word in words:
    assert word in str(caught.value)


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_the_processor_tells_the_size_of_images(copied, name):
  """transformers' networks of 384 pixels are published with its default."""
  directory = copied(name)
  change(directory, image_size=None)
  size = {"shortest_edge": 384}
  change(directory, "preprocessor_config.json", size=size)
  assert huggingface.read(directory).model.image_size == 384


@pytest.mark.parametrize(
  "values, words",
  [
    ({"global_pool": "max"}, ["global_pool", '"max"', "'avg'"]),
    ({"model_args": {"act_layer": "relu"}}, ["act_layer", "'gelu'"]),
    ({"model_args": {"norm_layer": "rmsnorm"}}, ["norm_layer", "understood"]),
    ({"model_args": {"stem_type": "overlap"}}, ["stem_type", "understood"]),
    ({"architecture": "resnet50"}, ["resnet50", "convnextv2_*"]),
  ],
)
def test_a_network_of_timm_that_is_not_ours_is_refused(copied, values, words):
  directory = copied("timm_convnext")
  change(directory, **values)
  with pytest.raises(UserError) as caught:
    timm.read(directory)
  for word in words:
    assert word in str(caught.value)


@pytest.mark.parametrize(
  "tensor, part",
  [
    ("norm_pre.weight", "a norm before the pooling"),
    ("stem.3.weight", "convolutions that overlap"),
    ("head.pre_logits.fc.weight", "a hidden layer"),
    ("stages.0.downsample.1.weight", "a stride in its first stage"),
    ("stages.1.blocks.0.shortcut.conv.weight", "around the blocks"),
  ],
)
def test_parts_that_our_networks_lack_are_named(copied, tensor, part):
  directory = copied("timm_convnext")
  zeros = np.zeros((8, 8), np.float32)
  change_tensors(directory, lambda found: {**found, tensor: zeros})
  with pytest.raises(UserError, match=part):
    timm.read(directory)


def test_a_stem_after_which_timm_dilates_is_named(copied):
  directory = copied("timm_convnext")

  def enlarge(found):
    kernel = found["stem.0.weight"]
    return {**found, "stem.0.weight": np.repeat(kernel, 2, 2).repeat(2, 3)}

  change_tensors(directory, enlarge)
  with pytest.raises(UserError, match="stem of stride 8.*dilates"):
    timm.read(directory)


def test_a_missing_block_is_a_table(copied):
  directory = copied("timm_convnext")
  left_out = "stages.2.blocks.0.mlp.fc1"
  change_tensors(
    directory,
    lambda found: {
      name: x for name, x in found.items() if not name.startswith(left_out)
    },
  )
  with pytest.raises(UserError, match=f"(?s)ConvNeXt.*{left_out}.weight"):
    timm.read(directory)


def dinov3s(tensors):
  """A ConvNeXt's tensors by the names of transformers' DINOv3, but the head."""
  found = {}
  for name, tensor in tensors.items():
    name = re.sub(
      r"^downsample_layers\.(\d)\.", r"stages.\1.downsample_layers.", name
    )
    name = re.sub(r"^stages\.(\d)\.(\d)\.", r"stages.\1.layers.\2.", name)
    for old, new in (
      ("dwconv", "depthwise_conv"),
      ("pwconv", "pointwise_conv"),
    ):
      name = name.replace(old, new)
    name = re.sub(r"(^|\.)norm\.", r"\1layer_norm.", name)
    found[name] = tensor
  return {n: x for n, x in found.items() if not n.startswith("head.")}


@pytest.mark.parametrize("form", ["huggingface", "transformers 5", "authors"])
def test_convnexts_of_dinov3_are_read(tmp_path, form):
  """They have no head: that of the fixture is applied here."""
  published = load_file(GOLDEN / "original_convnext" / tensors.FILE)
  wanted = expected("original_convnext")
  if form == "authors":
    more = {f"norms.3.{x}": published[f"norm.{x}"] for x in ("weight", "bias")}
    bare = {n: x for n, x in published.items() if not n.startswith("head.")}
    path = torch_zip.save(tmp_path / "dinov3.pth", bare | more)
  else:
    prefix = "model." * (form == "transformers 5")
    found = {
      prefix * name.startswith("stages.") + name: x
      for name, x in dinov3s(published).items()
    }
    save_file(found, tmp_path / "model.safetensors")
    config = {
      "model_type": "dinov3_convnext",
      "depths": [1, 1, 2, 1],
      "hidden_sizes": [8, 8, 12, 16],
      "layer_norm_eps": 1e-6,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = str(tmp_path)
  weights = files.read(path)
  assert weights.model.num_classes is None
  features = outputs(weights, wanted["images"])
  logits = features @ published["head.weight"].T + published["head.bias"]
  assert relative_error(logits, wanted["outputs"]) < 1e-5
  # Written as a ConvNext, whose outputs are the same.
  if form == "huggingface":
    huggingface.write(tmp_path / "out", weights)
    again = outputs(huggingface.read(tmp_path / "out"), wanted["images"])
    np.testing.assert_array_equal(again, features)
