"""A checkpoint's network as it is looked at."""

import dataclasses

import jax
import numpy as np
import pytest

from tests.inspection.networks import network_of
from tests.models.networks import (
  random_params,
  stack_layers,
  tiny,
  tiny_convnext,
  tiny_hybrid,
  tiny_resnet,
)
from tests.weights.published import GOLDEN
from vit_jax.inspection import network
from vit_jax.weights import files
from vit_jax.weights.stacking import stack_layers as stack_layers_of_all


@pytest.mark.parametrize(
  "model, grid, stride, num_extra_tokens",
  [
    (tiny(), (2, 2), 4, 1),
    (tiny(pool="gap"), (2, 2), 4, 0),
    (tiny(pool="gap", cls_token=True), (2, 2), 4, 1),
    (tiny(registers=3), (2, 2), 4, 4),
    (tiny(image_size=10, drop_remainder=True), (2, 2), 4, 1),
    (tiny_hybrid(), (2, 2), 8, 1),
    (tiny_resnet(), (2, 2), 8, 0),
  ],
)
def test_tokens_lie_on_a_grid_of_known_stride(
  model, grid, stride, num_extra_tokens
):
  found = network_of(model)
  assert (found.grid, found.stride) == (grid, stride)
  assert found.num_extra_tokens == num_extra_tokens


def test_layers_of_a_scan_come_one_by_one():
  params = random_params(tiny())
  found = network_of(tiny(scan_layers=True), stack_layers(params))
  assert not found.module.scan_layers
  name = "encoderblock_2"
  jax.tree.map(
    np.testing.assert_array_equal,
    found.params["Transformer"][name],
    params["Transformer"][name],
  )


def test_layers_of_scanned_towers_come_one_by_one():
  path = str(GOLDEN / "huggingface_siglip")
  found = files.read(path)
  model = found.model.updated(scan_layers=True)
  text = model.text.model_copy(update={"scan_layers": True})
  scanned = dataclasses.replace(
    found,
    model=model.model_copy(update={"text": text}),
    params=stack_layers_of_all(found.params),
  )
  seen = network.of_weights(scanned)
  assert not (seen.module.image.scan_layers or seen.module.text.scan_layers)
  jax.tree.map(np.testing.assert_array_equal, seen.params, found.params)


def test_a_network_that_trained_with_kernels_needs_none():
  assert network_of(tiny(attention="pallas")).module.attention == "xla"
  assert network_of(tiny_convnext(depthwise="pallas")).module.depthwise == "xla"


def test_a_resnet_has_no_attention():
  assert network_of(tiny()).has_attention
  assert not network_of(tiny_resnet()).has_attention
