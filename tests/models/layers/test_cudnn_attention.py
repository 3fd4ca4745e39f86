"""Attention by cuDNN: what is handed to it, and to its backward pass."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo as cudnn

from tests.models.networks import assert_trees_close
from vit_jax.errors import UserError
from vit_jax.models.layers import cudnn_attention, cudnn_limits, placement
from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.mlp import LayerConfig

BACKWARD = inspect.signature(cudnn._dot_product_attention_bwd_rule)


def _kernel(query, key, value, *, scale, return_residual):
  """The kernel's results: [b, n, heads, k] and, float32, [b, heads, n]."""
  assert return_residual
  wide = (x.astype(jnp.float32) for x in (query, key, value))
  query, key, value_32 = wide
  scores = scale * jnp.einsum("bqhk,bnhk->bhqn", query, key)
  log_sums = jax.nn.logsumexp(scores, axis=-1)
  weights = jnp.exp(scores - log_sums[..., None])
  context = jnp.einsum("bhqn,bnhk->bqhk", weights, value_32)
  return context.astype(value.dtype), log_sums


def _kernel_backward(*args):
  """The kernel's gradients, from what FlashAttention keeps: equation 4 of
  arXiv 2205.14135, appendix B.2."""
  given = BACKWARD.bind(*args).arguments
  assert given["dropout_rate"] == 0 and not any(given["variadic_args"])
  assert given["mask_type"] == cudnn.MaskType.NO_MASK
  assert given["layout"] == cudnn.AttentionLayout.BTNH.value
  assert given["sliding_window_length"] is None
  query, key, value, *absent, log_sums, context = given["res"]
  assert len(absent) == 7 and not any(x.size for x in absent)
  assert log_sums.dtype == jnp.float32
  dtype, scale = query.dtype, given["scale"]
  query, key, value, context, grad = (
    x.astype(jnp.float32)
    for x in (query, key, value, context, given["grad_output"])
  )
  scores = scale * jnp.einsum("bqhk,bnhk->bhqn", query, key)
  weights = jnp.exp(scores - log_sums[..., None])
  of_value = jnp.einsum("bhqn,bqhk->bnhk", weights, grad)
  inner = jnp.einsum("bqhk,bnhk->bhqn", grad, value)
  along = jnp.einsum("bqhk,bqhk->bhq", grad, context)
  of_scores = scale * weights * (inner - along[..., None])
  of_query = jnp.einsum("bhqn,bnhk->bqhk", of_scores, key)
  of_key = jnp.einsum("bhqn,bqhk->bnhk", of_scores, query)
  found = (x.astype(dtype) for x in (of_query, of_key, of_value))
  return (*found, *7 * [None])


@pytest.fixture
def kernel(monkeypatch):
  """A stand-in for the kernel; returns the lengths that it was called with."""
  called, of_jax = [], jax.nn.dot_product_attention

  def attention(query, key, value, *, implementation):
    assert implementation == "cudnn"
    assert query.shape == key.shape == value.shape
    called.append(query.shape[1])
    return of_jax(query, key, value, implementation="xla")

  def with_log_sums(query, key, value, **options):
    called.append(query.shape[1])
    return _kernel(query, key, value, **options)

  monkeypatch.setattr(jax.nn, "dot_product_attention", attention)
  monkeypatch.setattr(cudnn, "dot_product_attention", with_log_sums)
  monkeypatch.setattr(
    cudnn, "_dot_product_attention_bwd_rule", _kernel_backward
  )
  monkeypatch.setattr(placement, "platform", lambda: "gpu")
  return called


def _exact(query, key, value):
  """softmax(q k^T / sqrt(head size)) v by NumPy, [b, n, heads, k]."""
  query, key, value = (np.float64(x) for x in (query, key, value))
  scores = np.einsum("bqhk,bnhk->bhqn", query, key) / np.sqrt(query.shape[-1])
  weights = np.exp(scores - scores.max(-1, keepdims=True))
  weights /= weights.sum(-1, keepdims=True)
  return np.einsum("bhqn,bnhk->bqhk", weights, value)


def _plain(query, key, value):
  scores = jnp.einsum("bqhk,bnhk->bhqn", query, key)
  weights = jax.nn.softmax(scores / np.sqrt(query.shape[-1]))
  return jnp.einsum("bhqn,bnhk->bqhk", weights, value)


# Odd, even, and an image of 224 px in patches of 16 with a class token.
@pytest.mark.parametrize("length", [49, 64, 197])
def test_result_and_gradients_are_those_of_attention(kernel, length):
  rng = np.random.default_rng(length)
  *arrays, grad = jnp.float32(rng.standard_normal((4, 2, length, 2, 8)))
  result, pull = jax.vjp(cudnn_attention.attend, *arrays)
  assert kernel == [length]
  np.testing.assert_allclose(result, _exact(*arrays), rtol=1e-4, atol=1e-5)
  _, pull_plain = jax.vjp(_plain, *arrays)
  assert_trees_close(pull(grad), pull_plain(grad), rtol=1e-3, atol=1e-5)


def test_result_and_gradients_in_bfloat16_are_near(kernel):
  rng = np.random.default_rng(0)
  exact = jnp.float32(rng.standard_normal((4, 2, 77, 2, 16)))
  *arrays, grad = exact.astype(jnp.bfloat16)
  result, pull = jax.vjp(cudnn_attention.attend, *arrays)
  assert result.dtype == jnp.bfloat16
  expected = _exact(*arrays)
  np.testing.assert_allclose(np.float32(result), expected, rtol=0.02, atol=0.02)
  _, pull_plain = jax.vjp(_plain, *(x.astype(jnp.float32) for x in arrays))
  for ours, wanted in zip(
    pull(grad), pull_plain(grad.astype(jnp.float32)), strict=True
  ):
    assert ours.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(ours), wanted, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("attention", ["cudnn", "flash"])
@pytest.mark.parametrize("length", [5, 8])
@pytest.mark.parametrize("key_bias", [True, False])
def test_layer_on_a_gpu_is_the_plain_one(kernel, attention, length, key_bias):
  rng = np.random.default_rng(0)
  tokens = jnp.asarray(rng.standard_normal((2, length, 32)), jnp.bfloat16)
  of_gpus, plain = (
    MultiHeadAttention(
      LayerConfig(2, 8, dtype="bfloat16", attention=name, key_bias=key_bias)
    )
    for name in (attention, "xla")
  )
  params = plain.init(jax.random.key(0), tokens, tokens)
  result = of_gpus.apply(params, tokens, tokens)
  assert kernel == [length]
  expected = plain.apply(params, tokens, tokens)
  np.testing.assert_allclose(
    np.float32(result), np.float32(expected), rtol=0.05, atol=0.02
  )


@pytest.mark.parametrize("attention", ["cudnn", "flash"])
def test_a_mask_is_refused_by_the_key_of_the_config(kernel, attention):
  tokens = jnp.ones((2, 5, 32), jnp.bfloat16)
  layer = MultiHeadAttention(
    LayerConfig(2, 8, dtype="bfloat16", attention=attention)
  )
  params = layer.init(jax.random.key(0), tokens, tokens)
  mask = jnp.ones((2, 5), bool)
  with pytest.raises(UserError, match=f"'{attention}' does not take the mask"):
    layer.apply(params, tokens, tokens, mask=mask)
  assert not kernel


def test_a_query_that_pools_is_left_to_xla(kernel):
  tokens = jnp.ones((2, 5, 32), jnp.bfloat16)
  layer = MultiHeadAttention(
    LayerConfig(2, 8, dtype="bfloat16", attention="cudnn")
  )
  params = layer.init(jax.random.key(0), tokens[:, :1], tokens)
  layer.apply(params, tokens[:, :1], tokens)
  assert not kernel


def test_what_jax_refuses_is_a_sentence(monkeypatch):
  def refuses(*args, **kwargs):
    raise NotImplementedError("The head dim must be <= 128.")

  monkeypatch.setattr(jax.nn, "dot_product_attention", refuses)
  with pytest.raises(UserError, match="<= 128.*attention='xla'"):
    cudnn_attention.attend(*[jnp.zeros((1, 8, 1, 256), jnp.bfloat16)] * 3)


@pytest.mark.parametrize(
  "head_size, taken", [(8, True), (64, True), (128, True), (20, False)]
)
def test_heads_are_whole_multiples_of_eight(head_size, taken):
  assert cudnn_limits.takes(head_size) == taken
  assert not cudnn_limits.takes(head_size + 128)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU")
@pytest.mark.parametrize("length", [50, 197, 200])
def test_result_and_gradients_of_a_gpu_are_those_of_attention(length):
  rng = np.random.default_rng(length)
  exact = rng.standard_normal((4, 2, length, 2, 64))
  *arrays, grad = jnp.asarray(exact, jnp.bfloat16)
  result, pull = jax.vjp(cudnn_attention.attend, *arrays)
  np.testing.assert_allclose(
    np.float32(result), _exact(*arrays), rtol=0.05, atol=0.02
  )
  _, pull_plain = jax.vjp(_plain, *(x.astype(jnp.float32) for x in arrays))
  for ours, wanted in zip(
    pull(grad), pull_plain(grad.astype(jnp.float32)), strict=True
  ):
    np.testing.assert_allclose(np.float32(ours), wanted, rtol=0.05, atol=0.05)
