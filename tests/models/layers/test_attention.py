"""Attention against equations 5 to 8, looped over heads and pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from tests.models.networks import assert_trees_close
from vit_jax.errors import UserError
from vit_jax.models.layers.attention import ATTENTION_MAPS, MultiHeadAttention
from vit_jax.models.layers.mlp import LayerConfig

CONFIG = LayerConfig(num_heads=3, mlp_dim=8)


def _inputs(config=CONFIG, num_queries=5, num_tokens=5, width=12):
  rng = np.random.default_rng(0)
  tokens = rng.standard_normal((2, num_tokens, width)).astype(np.float32)
  queries = rng.standard_normal((2, num_queries, width)).astype(np.float32)
  attention = MultiHeadAttention(config)
  queries, tokens = jnp.asarray(queries), jnp.asarray(tokens)
  params = attention.init(jax.random.key(0), queries, tokens)["params"]
  # Biases start at zero: make them count.
  params = jax.tree.map(
    lambda x: x + 0.1 * rng.standard_normal(x.shape).astype(np.float32),
    params,
  )
  return attention, params, queries, tokens


def _expected(params, queries, tokens, relative_keys=None):
  both = [
    oracle.attention(*example, params, relative_keys)
    for example in zip(np.float64(queries), np.float64(tokens), strict=True)
  ]
  return [np.stack(x) for x in zip(*both, strict=True)]


@pytest.mark.parametrize("num_queries", [1, 5])
@pytest.mark.parametrize("qkv_bias", [True, False])
def test_result_and_maps_are_the_equations(num_queries, qkv_bias):
  config = LayerConfig(num_heads=3, mlp_dim=8, qkv_bias=qkv_bias)
  attention, params, queries, tokens = _inputs(config, num_queries)
  assert ("bias" in params["query"]) == qkv_bias
  result, sown = attention.apply(
    {"params": params}, queries, tokens, mutable=[ATTENTION_MAPS]
  )
  expected, maps = _expected(params, queries, tokens)
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
  (sown_maps,) = sown[ATTENTION_MAPS]["attention"]
  np.testing.assert_allclose(sown_maps, maps, rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(jnp.sum(sown_maps, -1), 1, rtol=1e-5)


def test_keys_without_a_bias_give_what_those_with_any_give():
  without = LayerConfig(num_heads=3, mlp_dim=8, key_bias=False)
  attention, params, queries, tokens = _inputs(without)
  assert "bias" in params["query"] and "bias" not in params["key"]
  result = attention.apply({"params": params}, queries, tokens)
  bias = np.float32(np.random.default_rng(3).standard_normal((3, 4)))
  key = {**params["key"], "bias": bias}
  with_bias = MultiHeadAttention(LayerConfig(num_heads=3, mlp_dim=8))
  expected = with_bias.apply(
    {"params": {**params, "key": key}}, queries, tokens
  )
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_relative_key_of_each_pair_is_that_of_its_offset():
  attention, params, _, tokens = _inputs()
  rng = np.random.default_rng(1)
  keys = rng.standard_normal((2 * 5 - 1, 3, 4)).astype(np.float32)
  result = attention.apply(
    {"params": params}, tokens, tokens, jnp.asarray(keys)
  )
  expected, _ = _expected(params, tokens, tokens, keys)
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_large_scores_do_not_overflow():
  attention, params, queries, tokens = _inputs()
  result = attention.apply({"params": params}, queries * 1e3, tokens * 1e3)
  expected, _ = _expected(params, queries * 1e3, tokens * 1e3)
  np.testing.assert_allclose(result, expected, rtol=1e-3, atol=0.5)


def test_gradients_are_those_of_the_usual_softmax():
  attention, params, _, tokens = _inputs()

  def plain(params, x):
    q, k, v = (
      jnp.einsum("bnd,dhk->bnhk", x, params[name]["kernel"])
      + params[name]["bias"][None, None]
      for name in ("query", "key", "value")
    )
    weights = jax.nn.softmax(jnp.einsum("bqhk,bnhk->bhqn", q, k) / 2.0)
    context = jnp.einsum("bhqn,bnhk->bqhk", weights, v)
    out = params["out"]
    result = jnp.einsum("bnhk,hkd->bnd", context, out["kernel"])
    return jnp.sum((result + out["bias"][None, None]) ** 2)

  def ours(params, x):
    return jnp.sum(attention.apply({"params": params}, x, x) ** 2)

  assert_trees_close(
    jax.grad(ours, argnums=(0, 1))(params, tokens),
    jax.grad(plain, argnums=(0, 1))(params, tokens),
  )


@pytest.mark.parametrize("softmax_dtype", ["float32", "bfloat16"])
def test_bfloat16_is_near_float32(softmax_dtype):
  _, params, queries, tokens = _inputs()
  config = LayerConfig(
    num_heads=3, mlp_dim=8, dtype="bfloat16", softmax_dtype=softmax_dtype
  )
  result = MultiHeadAttention(config).apply(
    {"params": params},
    queries.astype(jnp.bfloat16),
    tokens.astype(jnp.bfloat16),
  )
  assert result.dtype == jnp.bfloat16
  expected, _ = _expected(params, queries, tokens)
  np.testing.assert_allclose(
    np.asarray(result, np.float32), expected, rtol=0.1, atol=0.1
  )


def test_kernels_start_xavier_uniform_as_matrices():
  config = LayerConfig(num_heads=4, mlp_dim=8)
  tokens = jnp.zeros((1, 2, 256))
  params = MultiHeadAttention(config).init(jax.random.key(0), tokens, tokens)
  limit = np.sqrt(6 / (256 + 256))
  for name in ("query", "key", "value", "out"):
    kernel = params["params"][name]["kernel"]
    assert np.abs(kernel).max() == pytest.approx(limit, rel=1e-3)
    assert kernel.std() == pytest.approx(limit / np.sqrt(3), rel=2e-2)


def test_cudnn_without_a_gpu_says_what_to_use():
  if jax.default_backend() == "gpu":
    pytest.skip("needs a machine without a GPU")
  config = LayerConfig(3, 8, attention="cudnn", dtype="bfloat16")
  _, params, queries, tokens = _inputs()
  with pytest.raises(UserError, match="config.model.attention='xla'"):
    MultiHeadAttention(config).apply(
      {"params": params},
      queries.astype(jnp.bfloat16),
      tokens.astype(jnp.bfloat16),
    )


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU")
def test_cudnn_equals_xla():
  results = []
  rng = np.random.default_rng(0)
  tokens = jnp.asarray(rng.standard_normal((2, 197, 128)), jnp.bfloat16)
  for implementation in ("xla", "cudnn"):
    config = LayerConfig(2, 8, dtype="bfloat16", attention=implementation)
    attention = MultiHeadAttention(config)
    params = attention.init(jax.random.key(0), tokens, tokens)
    results.append(np.float32(attention.apply(params, tokens, tokens)))
  np.testing.assert_allclose(*results, rtol=0.05, atol=0.02)
