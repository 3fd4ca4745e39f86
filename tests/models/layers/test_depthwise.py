"""Depthwise convolutions agree with one another and with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.layers import depthwise

FORMS = (depthwise.depthwise_conv, depthwise.grouped_conv)


def arrays(rows, columns, size, dtype=np.float32):
  rng = np.random.default_rng(0)
  x = rng.standard_normal((2, rows, columns, 3))
  kernel = rng.standard_normal((size, size, 1, 3))
  return jnp.asarray(x, dtype), jnp.asarray(kernel, dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows, columns, size", [(5, 4, 3), (9, 8, 7)])
def test_each_channel_meets_its_own_filter(form, rows, columns, size):
  x, kernel = arrays(rows, columns, size)
  half = size // 2
  padded = np.pad(x, ((0, 0), (half, half), (half, half), (0, 0)))
  wanted = np.zeros(x.shape)
  for i in range(rows):
    for j in range(columns):
      window = padded[:, i : i + size, j : j + size]
      wanted[:, i, j] = (window * np.asarray(kernel)[None, :, :, 0]).sum((1, 2))
  np.testing.assert_allclose(form(x, kernel), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows, columns", [(9, 8), (1, 1), (2, 3), (19, 4)])
def test_gradients_of_the_shifts_are_those_of_the_convolution(rows, columns):
  x, kernel = arrays(rows, columns, 7)

  def gradients(form):
    def loss(x, kernel):
      return jnp.sum(jnp.sin(form(x, kernel)))

    return jax.jit(jax.grad(loss, argnums=(0, 1)))(x, kernel)

  for ours, theirs in zip(
    gradients(depthwise.sum_of_shifts),
    gradients(depthwise.grouped_conv),
    strict=True,
  ):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_sums_of_bfloat16_are_not_rounded_one_by_one():
  x, kernel = arrays(9, 8, 7, jnp.bfloat16)
  found = depthwise.sum_of_shifts(x, kernel)
  assert found.dtype == jnp.bfloat16
  wanted = depthwise.grouped_conv(
    x.astype(jnp.float32), kernel.astype(jnp.float32)
  )
  np.testing.assert_allclose(
    found.astype(jnp.float32), wanted, rtol=2**-8, atol=1e-5
  )


def test_cpus_add_shifted_maps():
  x, kernel = arrays(5, 4, 3)
  jaxpr = str(jax.make_jaxpr(depthwise.depthwise_conv)(x, kernel))
  assert "conv_general_dilated" not in jaxpr
