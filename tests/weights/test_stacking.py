"""Layers in a loop and in a scan."""

import jax
import numpy as np
import pytest

from tests.models import networks
from tests.weights import published_npz
from vit_jax.weights import flat, stacking


def loop():
  return flat.unflatten(published_npz.vit(depth=11)[1])


def test_stacked_parameters_are_those_of_a_scanned_network():
  stacked = stacking.stack_layers(loop())
  scanned = networks.random_params(networks.tiny(depth=11, scan_layers=True))
  assert jax.tree.map(np.shape, stacked) == jax.tree.map(np.shape, scanned)
  layer = "Transformer/encoderblock{}/LayerNorm_0/scale"
  for i in (2, 10):
    np.testing.assert_array_equal(
      flat.flatten(stacked)[layer.format("")][i],
      flat.flatten(loop())[layer.format(f"_{i}")],
    )


def test_there_and_back_is_the_identity():
  back = stacking.unstack_layers(stacking.stack_layers(loop()))
  jax.tree.map(np.testing.assert_array_equal, back, loop())


def towers():
  """Two Transformers of 3 and 2 layers and a parameter beside them."""
  layers = {f"encoderblock_{i}": {"w": np.full(2, i)} for i in range(3)}
  text = {f"encoderblock_{i}": {"w": np.full(4, -i)} for i in range(2)}
  return {
    "image": {"Transformer": layers},
    "text": {"Transformer": text},
    "logit_scale": np.ones(()),
  }


IMAGE, TEXT = (f"{name}/Transformer/encoderblock" for name in ("image", "text"))


def test_layers_of_every_transformer_are_stacked_under_its_prefix():
  stacked = flat.flatten(stacking.stack_layers(towers()))
  assert stacked.keys() == {f"{IMAGE}/w", f"{TEXT}/w", "logit_scale"}
  np.testing.assert_array_equal(stacked[f"{IMAGE}/w"][:, 0], [0, 1, 2])
  np.testing.assert_array_equal(stacked[f"{TEXT}/w"][:, 0], [0, -1])
  back = stacking.unstack_layers(stacking.stack_layers(towers()))
  jax.tree.map(np.testing.assert_array_equal, back, towers())


@pytest.mark.parametrize("image", [True, False])
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("given", [dict, stacking.stack_layers])
def test_each_transformer_is_arranged_as_the_network_has_it(image, text, given):
  paths = [
    f"{IMAGE}/w" if image else f"{IMAGE}_0/w",
    f"{TEXT}/w" if text else f"{TEXT}_0/w",
    "logit_scale",
  ]
  found = flat.flatten(stacking.arranged(given(towers()), paths))
  wanted = {f"{IMAGE}/w"} if image else {f"{IMAGE}_{i}/w" for i in range(3)}
  wanted |= {f"{TEXT}/w"} if text else {f"{TEXT}_{i}/w" for i in range(2)}
  assert found.keys() == wanted | {"logit_scale"}
  back = stacking.unstack_layers(flat.unflatten(found))
  jax.tree.map(np.testing.assert_array_equal, back, towers())


def test_arrays_that_are_arranged_already_are_not_copied():
  for params in (towers(), stacking.stack_layers(towers())):
    leaves = flat.flatten(params)
    found = flat.flatten(stacking.arranged(params, leaves))
    assert all(found[path] is leaf for path, leaf in leaves.items())


def test_what_is_in_the_wanted_form_stays():
  stacked = stacking.stack_layers(loop())
  for tree, change in [
    (loop(), stacking.unstack_layers),
    (stacked, stacking.stack_layers),
  ]:
    jax.tree.map(np.testing.assert_array_equal, change(tree), tree)
