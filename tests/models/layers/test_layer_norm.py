"""LayerNorm against NumPy and against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

from tests.models import oracle
from vit_jax.models.layers.layer_norm import LayerNorm


def _params(width, rng):
  return {
    "scale": rng.standard_normal(width).astype(np.float32),
    "bias": rng.standard_normal(width).astype(np.float32),
  }


def test_result_is_the_definition():
  rng = np.random.default_rng(0)
  x = rng.standard_normal((2, 3, 16)).astype(np.float32) * 3 + 2
  params = _params(16, rng)
  result = LayerNorm(1e-6, "float32").apply({"params": params}, jnp.asarray(x))
  expected = oracle.layer_norm(x.astype(np.float64), params)
  np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


def test_gradients_are_those_of_finite_differences():
  rng = np.random.default_rng(1)
  x = rng.standard_normal((2, 3, 8)).astype(np.float32)
  params = _params(8, rng)
  norm = LayerNorm(1e-6, "float32")

  def result(params, x):
    return norm.apply({"params": params}, jnp.asarray(x))

  check_grads(result, (params, x), order=1, modes=["rev"], rtol=2e-2)


def test_gradients_are_those_of_automatic_differentiation():
  rng = np.random.default_rng(2)
  x = rng.standard_normal((4, 16)).astype(np.float32)
  weights = rng.standard_normal((4, 16)).astype(np.float32)
  params = _params(16, rng)

  def ours(params, x):
    result = LayerNorm(1e-6, "float32").apply(
      {"params": params}, jnp.asarray(x)
    )
    return jnp.sum(result * weights)

  def plain(params, x):
    centred = x - jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean(centred**2, -1, keepdims=True)
    normalized = centred / jnp.sqrt(variance + 1e-6)
    result = normalized * params["scale"][None] + params["bias"][None]
    return jnp.sum(result * weights)

  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
    jax.grad(ours, argnums=(0, 1))(params, x),
    jax.grad(plain, argnums=(0, 1))(params, x),
  )


def test_a_constant_row_gives_the_bias_and_no_nan():
  x = np.full((1, 16), 1000.1, np.float32)
  params = {"scale": np.ones(16, np.float32), "bias": np.ones(16, np.float32)}
  result = LayerNorm(1e-6, "float32").apply({"params": params}, jnp.asarray(x))
  assert np.all(np.isfinite(result))


def test_statistics_of_bfloat16_are_taken_in_float32():
  rng = np.random.default_rng(3)
  x = jnp.asarray(rng.standard_normal((2, 512)) + 4, jnp.bfloat16)
  params = {
    "scale": np.ones(512, np.float32),
    "bias": np.zeros(512, np.float32),
  }
  result = LayerNorm(1e-6, "bfloat16").apply({"params": params}, jnp.asarray(x))
  assert result.dtype == jnp.bfloat16
  expected = oracle.layer_norm(np.asarray(x, np.float64), params)
  np.testing.assert_allclose(
    np.asarray(result, np.float64), expected, rtol=2**-8, atol=1e-3
  )
