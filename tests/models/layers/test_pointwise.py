"""Dense layers of maps: products, and convolutions for TPUs."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import assert_same_gradients
from vit_jax.models.layers import placement, pointwise


@pytest.fixture(params=["cpu", "gpu", "tpu"])
def platform(request, monkeypatch):
  monkeypatch.setattr(placement, "platform", lambda: request.param)
  return request.param


def arrays():
  rng = np.random.default_rng(0)
  x = rng.standard_normal((2, 3, 4, 5))
  kernel = rng.standard_normal((5, 6))
  return np.float32(x), np.float32(kernel)


def test_each_place_meets_the_kernel(platform):
  x, kernel = arrays()
  found = pointwise.dense(jnp.asarray(x), jnp.asarray(kernel))
  assert np.allclose(found, np.float64(x) @ kernel, atol=1e-5)


def test_a_dense_layer_has_the_gradients_of_flax_alone(platform):
  x = jnp.asarray(arrays()[0])
  plain = nn.Dense(6)
  layer = nn.Dense(6, dot_general=pointwise.dot_general)

  assert_same_gradients(layer, plain, x)


def test_tpus_alone_have_convolutions(platform):
  x, kernel = map(jnp.asarray, arrays())
  # A function of its own: traces are cached.
  text = str(jax.make_jaxpr(lambda *args: pointwise.dense(*args))(x, kernel))
  assert ("conv_general_dilated" in text) == (platform == "tpu")
