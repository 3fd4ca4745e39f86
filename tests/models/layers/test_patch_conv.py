"""Convolutions of patches: products, and convolutions for TPUs."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import assert_same_gradients
from vit_jax.models.layers import placement
from vit_jax.models.layers.patch_conv import PatchConv, patch_product

SIDE, FEATURES = 2, 6


@pytest.fixture(params=["cpu", "gpu", "tpu"])
def platform(request, monkeypatch):
  monkeypatch.setattr(placement, "platform", lambda: request.param)
  return request.param


def arrays():
  """A map with a row and a column too many, and filters."""
  rng = np.random.default_rng(0)
  x = rng.standard_normal((2, 5, 7, 3))
  kernel = rng.standard_normal((SIDE, SIDE, 3, FEATURES))
  return np.float32(x), np.float32(kernel)


def test_each_whole_patch_meets_the_kernel(platform):
  x, kernel = arrays()
  wanted = np.empty((2, 2, 3, FEATURES))
  for y, row in enumerate(range(0, 4, SIDE)):
    for z, column in enumerate(range(0, 6, SIDE)):
      patch = x[:, row : row + SIDE, column : column + SIDE]
      wanted[:, y, z] = np.einsum("bijc,ijck->bk", np.float64(patch), kernel)
  found = patch_product(jnp.asarray(x), jnp.asarray(kernel))
  np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_the_layer_has_the_gradients_of_flaxs(platform):
  x = jnp.asarray(arrays()[0])
  ours = PatchConv(FEATURES, SIDE, nn.initializers.lecun_normal(), "float32")
  plain = nn.Conv(FEATURES, (SIDE, SIDE), (SIDE, SIDE), padding="VALID")

  assert_same_gradients(ours, plain, x)


def test_tpus_alone_have_convolutions(platform):
  x, kernel = map(jnp.asarray, arrays())
  # A function of its own: traces are cached.
  text = str(jax.make_jaxpr(lambda *args: patch_product(*args))(x, kernel))
  assert ("conv_general_dilated" in text) == (platform == "tpu")
