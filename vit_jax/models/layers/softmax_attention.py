"""Attention as matrix products that keeps one array as large as the scores."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers import placement


class Layout(NamedTuple):
  """The dimensions of projections, as named in `einsum`.

  Attributes:
    queries: Dimensions of queries and results, the last one being the head
      size.
    keys: Dimensions of keys and values.
  """

  queries: str
  keys: str


BY_TOKEN = Layout("...qhk", "...nhk")
BY_HEAD = Layout("...hqk", "...hnk")


def attend(
  query: Float[Array, "*b q heads k"],
  key: Float[Array, "*b n heads k"],
  value: Float[Array, "*b n heads k"],
  bias: Float[Array, "*c heads n q"] | None = None,
  softmax_dtype: str = "float32",
) -> Float[Array, "*b q heads k"]:
  """softmax(q k^T + bias) v for each head.

  The scores are the largest arrays of an encoder block, and passes over them
  take much of its time. Here they exist only inside the product that computes
  them: each row keeps only the exponentials, exp(score - largest score), in the
  dtype of the second product, and their sum. Automatic differentiation would
  keep more and compute gradients in separate passes.

  Scores are arranged keys by queries, and on TPUs the projections by token,
  because XLA then computes product, maximum, exponentials and sum in one pass
  (docs/notes/performance.md). Elsewhere the projections are transposed to have
  heads first, as matrix products need them.

  Args:
    query: Queries, already divided by sqrt(k).
    key: Keys.
    value: Values to average.
    bias: Bias added to the scores; dimensions of length 1 are broadcast.
    softmax_dtype: Dtype of the scores and exponentials; sums are float32.

  Returns:
    The weighted means of `value`, in its dtype.
  """
  if placement.platform() == "tpu":
    return _attend(BY_TOKEN, softmax_dtype, query, key, value, bias)
  query, key, value = (jnp.swapaxes(x, -3, -2) for x in (query, key, value))
  mean = _attend(BY_HEAD, softmax_dtype, query, key, value, bias)
  return jnp.swapaxes(mean, -3, -2)


def scores(
  query: Float[Array, "b q heads k"],
  key: Float[Array, "b n heads k"],
  bias: Float[Array, "c heads n q"] | None,
) -> Float[Array, "b heads n q"]:
  """q k^T + bias in float32."""
  return _scores(BY_TOKEN, "float32", query, key, bias)


def _scores(layout, dtype, query, key, bias):
  product = jnp.einsum(
    f"{layout.queries},{layout.keys}->...hnq",
    query,
    key,
    preferred_element_type=dtype,
  )
  return product if bias is None else product + bias.astype(dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attend(layout, softmax_dtype, query, key, value, bias):
  return _forward(layout, softmax_dtype, query, key, value, bias)[0]


def _forward(layout, softmax_dtype, query, key, value, bias):
  queries, keys = layout
  logits = _scores(layout, softmax_dtype, query, key, bias)
  weights = jnp.exp(logits - jnp.max(logits, axis=-2, keepdims=True))
  total = jnp.sum(weights, axis=-2, dtype=jnp.float32)
  total = jnp.einsum(f"...hq->{queries[:-1]}", total)[..., None]
  weights = weights.astype(value.dtype)
  # The result is divided, as it is smaller than the scores.
  mean = jnp.einsum(
    f"...hnq,{keys}->{queries}",
    weights,
    value,
    preferred_element_type=jnp.float32,
  )
  mean = (mean / total).astype(value.dtype)
  return mean, (query, key, value, bias, weights, total, mean)


def _backward(layout, softmax_dtype, saved, gradient):
  queries, keys = layout
  query, key, value, bias, weights, total, mean = saved
  gradient = gradient.astype(jnp.float32) / total
  # sum(dweights * weights), the gradient's component along the weights, equals
  # that along the mean: a sum over k, not over n.
  along = jnp.sum(gradient * mean.astype(jnp.float32), axis=-1)
  along = jnp.einsum(f"{queries[:-1]}->...hq", along)[..., None, :]
  gradient = gradient.astype(value.dtype)
  dvalue = jnp.einsum(f"...hnq,{queries}->{keys}", weights, gradient)
  dweights = jnp.einsum(
    f"{queries},{keys}->...hnq",
    gradient,
    value,
    preferred_element_type=jnp.float32,
  )
  dscores = weights.astype(jnp.float32) * (dweights - along)
  dscores = dscores.astype(value.dtype)
  dquery = jnp.einsum(f"...hnq,{keys}->{queries}", dscores, key)
  dkey = jnp.einsum(f"...hnq,{queries}->{keys}", dscores, query)
  dbias = None if bias is None else _summed(dscores, bias.shape)
  if dbias is not None:
    dbias = dbias.astype(bias.dtype)
  return dquery, dkey, dvalue, dbias


def _summed(gradient, shape):
  """Sum over the axes along which an array of this shape was broadcast."""
  axes = [
    axis
    for axis, (length, own) in enumerate(
      zip(gradient.shape, shape, strict=True)
    )
    if own < length
  ]
  return (
    jnp.sum(gradient, axes, jnp.float32, keepdims=True) if axes else gradient
  )


_attend.defvjp(_forward, _backward)
