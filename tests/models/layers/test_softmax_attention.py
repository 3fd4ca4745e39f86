"""Attention and its hand-written gradients against plain softmax."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.layers import placement, softmax_attention
from vit_jax.models.layers.softmax_attention import attend


@pytest.fixture(autouse=True, params=["cpu", "tpu"])
def platform(request, monkeypatch):
  """Each has a layout of its own; any device can compute both."""
  monkeypatch.setattr(placement, "platform", lambda: request.param)
  return request.param


def _inputs(scale=3.0, dtype="float32", with_bias=True):
  """2 images, 5 queries, 7 keys, 3 heads of size 4."""
  rng = np.random.default_rng(0)
  query = scale * rng.standard_normal((2, 5, 3, 4)) / 2
  key, value = rng.standard_normal((2, 2, 7, 3, 4))
  bias = rng.standard_normal((2, 3, 7, 5))
  arrays = [query, key, value] + [bias] * with_bias
  return [jnp.asarray(x, dtype) for x in arrays]


def _plain(query, key, value, bias=0.0):
  query, key, value, bias = (
    jnp.asarray(x, jnp.float32) for x in (query, key, value, bias)
  )
  scores = jnp.einsum("bqhk,bnhk->bhnq", query, key) + bias
  return jnp.einsum("bhnq,bnhk->bqhk", jax.nn.softmax(scores, axis=2), value)


def _gradients(function, arrays):
  def loss(*arrays):
    return jnp.sum(jnp.sin(function(*arrays).astype(jnp.float32)))

  return jax.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("scale", [0.0, 3.0, 1e4])
def test_mean_and_gradients_are_those_of_softmax(scale, with_bias):
  arrays = _inputs(scale, with_bias=with_bias)
  np.testing.assert_allclose(
    attend(*arrays), _plain(*arrays), rtol=1e-5, atol=1e-6
  )
  names = ("query", "key", "value", "bias")[: len(arrays)]
  for name, ours, plain in zip(
    names, _gradients(attend, arrays), _gradients(_plain, arrays), strict=True
  ):
    # The key's gradient is the scores' times the queries.
    size = max(1.0, scale) if name == "key" else 1.0
    np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-6 * size)


@pytest.mark.parametrize("softmax_dtype", ["float32", "bfloat16"])
def test_bfloat16_mean_and_gradients_are_near(softmax_dtype):
  arrays = _inputs(dtype="bfloat16")

  def ours(*arrays):
    return attend(*arrays, softmax_dtype=softmax_dtype)

  assert ours(*arrays).dtype == jnp.bfloat16
  np.testing.assert_allclose(
    np.float32(ours(*arrays)), _plain(*arrays), atol=0.03
  )
  for mine, plain in zip(
    _gradients(ours, arrays), _gradients(_plain, arrays), strict=True
  ):
    assert mine.dtype == jnp.bfloat16
    np.testing.assert_allclose(
      np.float32(mine), np.float32(plain), rtol=0.05, atol=0.03
    )


def test_scores_of_bfloat16_are_not_rounded_before_a_float32_softmax():
  rng = np.random.default_rng(1)
  query = 3 * rng.standard_normal((1, 197, 2, 64)) / 8
  key, value = rng.standard_normal((2, 1, 197, 2, 64))
  arrays = [jnp.asarray(x, "bfloat16") for x in (query, key, value)]
  plain = np.asarray(_plain(*arrays))

  def error(softmax_dtype):
    mean = np.float32(attend(*arrays, softmax_dtype=softmax_dtype))
    return np.linalg.norm(mean - plain) / np.linalg.norm(plain)

  # Half a unit in the last place of the result is 2^-9; scores up to 16,
  # rounded, would cost weights several percent.
  assert error("float32") < 2**-8 < error("bfloat16")


def test_a_shift_of_a_querys_scores_changes_nothing():
  query, key, value, bias = _inputs()
  shifted = attend(query, key, value, bias + 50.0)
  np.testing.assert_allclose(
    shifted, attend(query, key, value, bias), rtol=1e-4, atol=1e-5
  )
  *_, dbias = _gradients(attend, (query, key, value, bias))
  np.testing.assert_allclose(jnp.sum(dbias, 2), 0, atol=1e-5)


def test_one_array_of_scores_is_kept_for_the_backward_pass():
  arrays = _inputs(dtype="bfloat16", with_bias=False)
  _, backward = jax.vjp(attend, *arrays)
  size = softmax_attention.scores(*arrays[:2], None).size
  kept = [x for x in jax.tree.leaves(backward) if x.size >= size]
  assert [x.dtype for x in kept] == [jnp.bfloat16]


def test_products_are_batches_of_matrices_where_there_is_no_tpu(platform):
  def gradients(*arrays):
    return _gradients(attend, arrays)

  program = str(jax.make_jaxpr(gradients)(*_inputs(with_bias=False)))
  batches = re.findall(
    r"dimension_numbers=\(\(.*?\), \((\[.*?\], \[.*?\])\)\)", program
  )
  assert len(batches) == 6  # Two forward, four backward.
  laid_by_head = [dims == "[0, 1], [0, 1]" for dims in batches]
  assert all(laid_by_head) == (platform == "cpu")
