"""GroupNorm against NumPy and against automatic differentiation."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from vit_jax.models.layers.group_norm import GroupNorm


def _params(channels, rng):
  return {
    "scale": rng.standard_normal(channels).astype(np.float32),
    "bias": rng.standard_normal(channels).astype(np.float32),
  }


@pytest.mark.parametrize("channels", [32, 96])
def test_result_is_the_definition(channels):
  rng = np.random.default_rng(0)
  x = rng.standard_normal((2, 3, 4, channels)).astype(np.float32) * 3 + 2
  params = _params(channels, rng)
  result = GroupNorm(1e-5, "float32").apply({"params": params}, jnp.asarray(x))
  expected = oracle.group_norm(x, params, 1e-5)
  np.testing.assert_allclose(result, expected, rtol=5e-5, atol=5e-5)


def test_epsilon_is_added_to_the_variance():
  rng = np.random.default_rng(1)
  x = 1e-3 * rng.standard_normal((1, 3, 3, 64)).astype(np.float32)
  params = _params(64, rng)
  result = GroupNorm(1e-5, "float32").apply({"params": params}, jnp.asarray(x))
  expected = oracle.group_norm(x, params, 1e-5)
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_flaxs_norm():
  rng = np.random.default_rng(2)
  x = rng.standard_normal((2, 4, 3, 96)).astype(np.float32) + 1
  weights = rng.standard_normal(x.shape).astype(np.float32)
  params = _params(96, rng)

  def gradients(norm):
    def loss(params, x):
      return jnp.sum(jnp.sin(norm.apply({"params": params}, x)) * weights)

    return jax.grad(loss, argnums=(0, 1))(params, jnp.asarray(x))

  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5),
    gradients(GroupNorm(1e-5, "float32")),
    gradients(nn.GroupNorm(epsilon=1e-5, use_fast_variance=False)),
  )


def test_a_constant_map_gives_the_bias_and_no_nan():
  x = jnp.full((1, 4, 4, 32), 1000.1)
  norm = GroupNorm(1e-5, "float32")
  params = norm.init(jax.random.key(0), x)
  result, pull = jax.vjp(norm.apply, params, x)
  assert np.all(np.isfinite(result))
  assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(pull(result)))


def test_statistics_of_bfloat16_are_taken_in_float32():
  rng = np.random.default_rng(3)
  x = jnp.asarray(rng.standard_normal((2, 16, 16, 32)) + 4, jnp.bfloat16)
  params = {"scale": np.ones(32, np.float32), "bias": np.zeros(32, np.float32)}
  norm = GroupNorm(1e-5, "bfloat16")
  result, pull = jax.vjp(lambda x: norm.apply({"params": params}, x), x)
  assert result.dtype == pull(result)[0].dtype == jnp.bfloat16
  expected = oracle.group_norm(np.asarray(x, np.float64), params, 1e-5)
  np.testing.assert_allclose(
    np.asarray(result, np.float64), expected, rtol=2**-8, atol=1e-3
  )
