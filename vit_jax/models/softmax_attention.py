"""Attention as matrix products, with one array as large as the scores kept."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def attend(
  query: Float[Array, "b q heads k"],
  key: Float[Array, "b n heads k"],
  value: Float[Array, "b n heads k"],
  bias: Float[Array, "b heads n q"] | None = None,
  softmax_dtype: str = "float32",
) -> Float[Array, "b q heads k"]:
  """softmax(q k^T + bias) v for each head.

  The scores are the largest arrays of an encoder block, and passes over them
  much of its time. Here they live only inside the product that makes them:
  what is kept of a row is the exponentials, exp(score - largest score), in
  the dtype that the second product wants, and their sum. Automatic
  differentiation would keep more, and make gradients in passes of their own.

  Scores lie keys by queries, and the projections by token, because then XLA
  for TPUs makes product, maximum, exponentials and sum in one pass
  (docs/performance.md).

  Args:
    query: what asks; already divided by sqrt(k).
    key: what is asked.
    value: what is averaged.
    bias: added to the scores.
    softmax_dtype: of the scores and exponentials; sums are float32.

  Returns:
    The means of `value`, in its dtype.
  """
  return _attend(softmax_dtype, query, key, value, bias)


def scores(
  query: Float[Array, "b q heads k"],
  key: Float[Array, "b n heads k"],
  bias: Float[Array, "b heads n q"] | None,
  dtype: str = "float32",
) -> Float[Array, "b heads n q"]:
  """q k^T + bias."""
  product = jnp.einsum(
    "bqhk,bnhk->bhnq", query, key, preferred_element_type=dtype
  )
  return product if bias is None else product + bias.astype(dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(softmax_dtype, query, key, value, bias):
  return _forward(softmax_dtype, query, key, value, bias)[0]


def _forward(softmax_dtype, query, key, value, bias):
  logits = scores(query, key, bias, softmax_dtype)
  weights = jnp.exp(logits - jnp.max(logits, axis=2, keepdims=True))
  total = jnp.sum(weights, axis=2, dtype=jnp.float32)
  total = jnp.swapaxes(total, 1, 2)[..., None]
  weights = weights.astype(value.dtype)
  # Division of the result, which is smaller than the scores.
  mean = jnp.einsum(
    "bhnq,bnhk->bqhk", weights, value, preferred_element_type=jnp.float32
  )
  mean = (mean / total).astype(value.dtype)
  return mean, (query, key, value, bias, weights, total, mean)


def _backward(softmax_dtype, saved, gradient):
  query, key, value, bias, weights, total, mean = saved
  gradient = gradient.astype(jnp.float32) / total
  # The gradient's part along the weights, sum(dweights * weights), is that
  # along the mean: a sum over k, not over n.
  along = jnp.sum(gradient * mean.astype(jnp.float32), axis=-1)
  along = jnp.swapaxes(along, 1, 2)[:, :, None]
  gradient = gradient.astype(value.dtype)
  dvalue = jnp.einsum("bhnq,bqhk->bnhk", weights, gradient)
  dweights = jnp.einsum(
    "bqhk,bnhk->bhnq", gradient, value, preferred_element_type=jnp.float32
  )
  dscores = weights.astype(jnp.float32) * (dweights - along)
  dscores = dscores.astype(value.dtype)
  dquery = jnp.einsum("bhnq,bnhk->bqhk", dscores, key)
  dkey = jnp.einsum("bhnq,bqhk->bnhk", dscores, query)
  dbias = None if bias is None else dscores.astype(bias.dtype)
  return dquery, dkey, dvalue, dbias


_attend.defvjp(_forward, _backward)
