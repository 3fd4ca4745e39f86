"""Published PVTs give what transformers and timm make of them."""

import json
import re

import jax
import numpy as np
import pytest
from etils import epath
from safetensors.numpy import load_file, save_file

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
from vit_jax.models.pvt import sizes
from vit_jax.weights import files, tensors
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface, names, timm
from vit_jax.weights.spellings.registry import ORIGINAL

HUGGING_FACE = ("huggingface_pvt_v2", "huggingface_pvt_v2_linear")
TIMM = ("timm_pvt_v2", "timm_pvt_v2_linear")
READERS = dict.fromkeys(HUGGING_FACE, huggingface) | dict.fromkeys(TIMM, timm)


@pytest.mark.parametrize("name", READERS)
def test_outputs_are_those_of_the_reference(name):
  wanted = expected(name)
  found = outputs(READERS[name].read(GOLDEN / name), wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


@pytest.mark.parametrize("name", READERS)
def test_larger_images_give_what_the_reference_gives(name):
  wanted = expected(name)
  found = outputs_at(name, 45, wanted["images_45"])
  assert relative_error(found, wanted["outputs_45"]) < 1e-5


def test_names_of_the_authors_give_what_their_network_gives():
  name, record, notes = "original_pvt_v2", ORIGINAL.get("pvt"), []
  found = load_file(GOLDEN / name / tensors.FILE)
  assert set(record.names.required) <= found.keys()
  prepared = record.prepare(found, name, notes)
  said = record.said(found, name, notes)
  model, params, assumed = names.read(name, prepared, record.names, said)
  assert model.normalize == "imagenet"
  assert any("1, 2, 5 heads" in sentence for sentence in assumed)
  wanted = expected(name)
  for suffix in ("", "_45"):
    outs = outputs(Weights(name, model, params), wanted[f"images{suffix}"])
    assert relative_error(outs, wanted[f"outputs{suffix}"]) < 1e-5


@pytest.mark.parametrize("name", READERS)
def test_form_and_sizes_are_told(name):
  weights = files.read(str(GOLDEN / name))
  size = sizes.pvt(weights.model)
  assert size.linear_attention == name.endswith("_linear")
  assert size.depths == (1, 2, 1) and size.widths == (4, 8, 20)
  assert size.num_heads == ((1, 4, 2) if "linear" in name else (1, 2, 5))
  assert size.expansions == (3, 2, 2)
  assert weights.model.layer_norm_eps == 1e-6
  assert weights.model.map_norm_eps == (1e-6 if name in HUGGING_FACE else 1e-5)
  if not size.linear_attention:
    assert size.reductions == (4, 2, 1)


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
  # transformers writes one number for a square, or both sides of it.
  assert original.pop("image_size") in (32, [32, 32])
  for key in config:
    assert original.get(key) in (None, config[key]), key


def test_norms_that_transformers_lacks_are_named(tmp_path):
  with pytest.raises(UserError, match="map_norm_eps=1e-05.*NAME.npz"):
    huggingface.write(tmp_path / "out", timm.read(GOLDEN / "timm_pvt_v2"))


@pytest.mark.parametrize("name", READERS)
def test_a_network_without_qkv_bias_has_biases_of_zeros(copied, name):
  """The weighted sums are the same."""
  directory = copied(name)
  pattern = re.compile(r".*\.(attention\.(query|key|value)|attn\.(q|kv))\.bias")

  def zeros(tensors):
    assert any(map(pattern.fullmatch, tensors))
    return {n: 0 * x if pattern.fullmatch(n) else x for n, x in tensors.items()}

  change_tensors(directory, zeros)
  wanted = READERS[name].read(directory)
  change_tensors(
    directory,
    lambda x: {n: one for n, one in x.items() if not pattern.fullmatch(n)},
  )
  is_timm = name in TIMM
  keys = {"model_args": {"qkv_bias": False}} if is_timm else {"qkv_bias": False}
  change(directory, **keys)
  found = READERS[name].read(directory)
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


@pytest.mark.parametrize("name", READERS)
def test_biases_that_a_config_promises_are_missed(copied, name):
  directory = copied(name)
  pattern = re.compile(r".*\.(attention\.(query|key|value)|attn\.(q|kv))\.bias")
  change_tensors(
    directory,
    lambda x: {n: one for n, one in x.items() if not pattern.fullmatch(n)},
  )
  with pytest.raises(UserError, match="qkv_bias is true.*no biases of quer"):
    READERS[name].read(directory)


@pytest.mark.parametrize(
  "values, words",
  [
    ({"hidden_act": "relu"}, ["hidden_act", "relu", "'gelu'"]),
    ({"layer_norm_eps": 0.0}, ["layer_norm_eps", "positive"]),
    ({"depths": [1, 1, 1]}, ["depths", "[1, 2, 1]"]),
    ({"sr_ratios": [8, 2, 1]}, ["sr_ratios", "[4, 2, 1]"]),
    ({"mlp_ratios": [4, 2, 2]}, ["mlp_ratios", "[3, 2, 2]"]),
    ({"linear_attention": True}, ["linear_attention"]),
  ],
)
def test_a_config_of_another_network_is_refused(copied, values, words):
  directory = copied("huggingface_pvt_v2")
  change(directory, **values)
  with pytest.raises(UserError) as caught:
    huggingface.read(directory)
  for word in words:
    assert word in str(caught.value)


@pytest.mark.parametrize(
  "values, words",
  [
    ({"global_pool": "max"}, ["global_pool", "'avg'"]),
    ({"model_args": {"norm_layer": "rmsnorm"}}, ["norm_layer", "understood"]),
    ({"architecture": "pvt_tiny"}, ["pvt_tiny", "pvt_v2_*"]),
  ],
)
def test_a_network_of_timm_that_is_not_ours_is_refused(copied, values, words):
  directory = copied("timm_pvt_v2")
  change(directory, **values)
  with pytest.raises(UserError) as caught:
    timm.read(directory)
  for word in words:
    assert word in str(caught.value)


def test_a_joined_projection_of_odd_length_is_a_sentence(copied):
  directory = copied("timm_pvt_v2")
  path = directory / "model.safetensors"
  found = load_file(path)
  name = "stages.0.blocks.0.attn.kv.weight"
  save_file({**found, name: found[name][:-1]}, path)
  with pytest.raises(UserError, match="kv.weight.*not 2 projections"):
    timm.read(directory)
