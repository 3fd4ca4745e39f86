"""Layers in a loop and in a scan."""

import jax
import numpy as np

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


def test_what_is_in_the_wanted_form_stays():
  stacked = stacking.stack_layers(loop())
  for tree, change in [
    (loop(), stacking.unstack_layers),
    (stacked, stacking.stack_layers),
  ]:
    jax.tree.map(np.testing.assert_array_equal, change(tree), tree)
