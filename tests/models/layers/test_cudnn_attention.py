"""Attention by cuDNN: what is handed to it, and its padding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import assert_trees_close
from vit_jax.errors import UserError
from vit_jax.models.layers import cudnn_attention, cudnn_limits, placement
from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.mlp import LayerConfig

SHARED = functools.partial(jax.nn.dot_product_attention, implementation="xla")


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _kernel(query, key, value, length):
  """Attention that, as cuDNN's, leaves anything where it is told is padding."""
  return _forward(query, key, value, length)[0]


def _forward(query, key, value, length):
  lengths = jnp.full((len(query),), length, jnp.int32)
  attention = functools.partial(
    SHARED, query_seq_lengths=lengths, key_value_seq_lengths=lengths
  )
  result, pull = jax.vjp(attention, query, key, value)
  return result.at[:, length:].set(jnp.nan), pull


def _backward(length, pull, grad):
  # What it is handed there must not matter either.
  grad = grad.at[:, length:].set(0)
  return tuple(x.at[:, length:].set(jnp.nan) for x in pull(grad))


_kernel.defvjp(_forward, _backward)


@pytest.fixture
def cudnn(monkeypatch):
  """A stand-in for the kernel; returns the lengths that it was called with."""
  called = []

  def attention(
    query,
    key,
    value,
    *,
    implementation,
    query_seq_lengths=None,
    key_value_seq_lengths=None,
  ):
    assert implementation == "cudnn"
    assert query.shape == key.shape == value.shape
    batch, padded, *_ = query.shape
    if query_seq_lengths is None:
      called.append((padded, padded))
      return SHARED(query, key, value)
    for lengths in (query_seq_lengths, key_value_seq_lengths):
      assert lengths.shape == (batch,) and lengths.dtype == jnp.int32
    (length,) = np.unique(query_seq_lengths)
    np.testing.assert_array_equal(key_value_seq_lengths, query_seq_lengths)
    called.append((padded, int(length)))
    return _kernel(query, key, value, int(length))

  monkeypatch.setattr(jax.nn, "dot_product_attention", attention)
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


# Odd, no padding, and an image of 224 px in patches of 16 with a class token.
@pytest.mark.parametrize("length, padded", [(49, 56), (64, 64), (197, 200)])
def test_result_and_gradients_are_those_of_attention(cudnn, length, padded):
  rng = np.random.default_rng(length)
  *arrays, grad = jnp.float32(rng.standard_normal((4, 2, length, 2, 8)))
  result, pull = jax.vjp(cudnn_attention.attend, *arrays)
  assert cudnn == [(padded, length)]
  np.testing.assert_allclose(result, _exact(*arrays), rtol=1e-4, atol=1e-5)
  _, pull_plain = jax.vjp(_plain, *arrays)
  assert_trees_close(pull(grad), pull_plain(grad), rtol=1e-3, atol=1e-5)


def test_result_and_gradients_in_bfloat16_are_near(cudnn):
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
def test_layer_on_a_gpu_is_the_plain_one(cudnn, attention, length, key_bias):
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
  assert cudnn == [(8, length)]
  expected = plain.apply(params, tokens, tokens)
  np.testing.assert_allclose(
    np.float32(result), np.float32(expected), rtol=0.05, atol=0.02
  )


@pytest.mark.parametrize("attention", ["cudnn", "flash"])
def test_a_mask_is_refused_by_the_key_of_the_config(cudnn, attention):
  tokens = jnp.ones((2, 5, 32), jnp.bfloat16)
  layer = MultiHeadAttention(
    LayerConfig(2, 8, dtype="bfloat16", attention=attention)
  )
  params = layer.init(jax.random.key(0), tokens, tokens)
  mask = jnp.ones((2, 5), bool)
  with pytest.raises(UserError, match=f"'{attention}' does not take the mask"):
    layer.apply(params, tokens, tokens, mask=mask)
  assert not cudnn


def test_a_query_that_pools_is_left_to_xla(cudnn):
  tokens = jnp.ones((2, 5, 32), jnp.bfloat16)
  layer = MultiHeadAttention(
    LayerConfig(2, 8, dtype="bfloat16", attention="cudnn")
  )
  params = layer.init(jax.random.key(0), tokens[:, :1], tokens)
  layer.apply(params, tokens[:, :1], tokens)
  assert not cudnn


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
