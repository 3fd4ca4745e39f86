"""LayerScale, whose factors multiply weights instead of results."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.layers import layer_scale, pointwise, projecting

HEADS, SIZE = 3, 4
WIDTH = HEADS * SIZE


@pytest.mark.parametrize(
  "layer", ["heads", "flat heads", "dense", "dense of maps"]
)
def test_a_scale_multiplies_the_result(layer):
  rng = np.random.default_rng(1)
  scale, wanted = rng.normal(size=WIDTH), rng.normal(size=(2, 5, WIDTH))
  x = rng.normal(size=(2, 5, WIDTH))
  kernel, bias = rng.normal(size=(WIDTH, WIDTH)), rng.normal(size=WIDTH)

  def zeros(rng, shape, kind):
    del rng, kind
    return jnp.zeros(shape)

  shape, given = kernel.shape, x
  if layer == "dense":
    module = layer_scale.ScaledDense(WIDTH, "float32", zeros, zeros)
  elif layer == "dense of maps":
    module = layer_scale.ScaledDense(
      WIDTH, "float32", zeros, dot_general=pointwise.dot_general
    )
    given = x[:, None]
  else:
    module = projecting.OutputProjection(HEADS, "float32", zeros)
    shape, given = (HEADS, SIZE, WIDTH), x
    if layer == "heads":
      given = x.reshape(2, 5, HEADS, SIZE)

  def loss(kernel, bias, scale):
    params = {"kernel": kernel.reshape(shape), "bias": bias}
    found = module.apply({"params": params}, jnp.float32(given), scale)
    return jnp.sum(found.reshape(wanted.shape) * wanted)

  found = jax.grad(loss, (0, 1, 2))(*map(jnp.float32, (kernel, bias, scale)))
  plain = x @ kernel + bias
  np.testing.assert_allclose(
    loss(*map(jnp.float32, (kernel, bias, scale))),
    np.sum(plain * scale * wanted),
    rtol=1e-4,
  )
  by_hand = (
    np.einsum("bni,bnj->ij", x, wanted * scale),
    (wanted * scale).sum(axis=(0, 1)),
    (wanted * plain).sum(axis=(0, 1)),
  )
  for one, other in zip(found, by_hand, strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_parameters_of_sixteen_bits_are_scaled_in_float32():
  """As of a checkpoint in float16: the product is not rounded to 16 bits."""
  rng = np.random.default_rng(2)
  x = jnp.asarray(rng.normal(size=(2, WIDTH)), jnp.float32)
  params = {
    "kernel": rng.normal(size=(WIDTH, 5)).astype(np.float16),
    "bias": rng.normal(size=5).astype(np.float16),
  }
  scale = rng.normal(size=5).astype(np.float16)
  module = layer_scale.ScaledDense(5, "float32", nn.initializers.zeros)
  found = module.apply({"params": params}, x, scale)
  wanted = np.float64(x) @ params["kernel"] + params["bias"]
  np.testing.assert_allclose(found, wanted * np.float64(scale), rtol=1e-4)
