"""Tokens with positions, and the gradient of a table that examples share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.layers import placement
from vit_jax.models.layers.position_add import add_positions


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_sum_and_gradients_are_those_of_numpy(dtype, platform, monkeypatch):
  monkeypatch.setattr(placement, "platform", lambda: platform)
  rng = np.random.default_rng(0)
  tokens, grad = jnp.asarray(rng.normal(size=(2, 64, 5, 6)), dtype)
  table = jnp.float32(rng.normal(size=(5, 6)))
  result, pull = jax.vjp(add_positions, tokens, table)
  assert result.dtype == tokens.dtype
  rounded = np.float32(table.astype(dtype))
  tolerance = {"float32": 1e-6, "bfloat16": 0.01}[dtype]
  np.testing.assert_allclose(
    np.float32(result), np.float32(tokens) + rounded, tolerance, tolerance
  )
  of_tokens, of_table = pull(grad)
  np.testing.assert_array_equal(of_tokens, grad)
  # It is summed, and kept, in float32 whatever the tokens are.
  assert of_table.dtype == jnp.float32
  wanted = np.float64(np.float32(grad)).sum(0)
  np.testing.assert_allclose(of_table, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("platform, fixed", [("cpu", False), ("gpu", True)])
def test_the_order_of_gradients_in_memory_is_fixed_on_gpus(
  platform, fixed, monkeypatch
):
  monkeypatch.setattr(placement, "platform", lambda: platform)

  def gradients(tokens, table, grad):
    return jax.vjp(add_positions, tokens, table)[1](grad)

  tokens, table = jnp.ones((2, 5, 6)), jnp.ones((5, 6))
  text = jax.jit(gradients).lower(tokens, table, tokens).as_text()
  assert ("@LayoutConstraint" in text) == fixed
