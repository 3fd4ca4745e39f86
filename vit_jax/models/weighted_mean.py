"""softmax(scores) @ values, made again in the backward pass, not stored."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def weighted_mean(
  scores: Float[Array, "b heads q n"],
  values: Float[Array, "b heads n k"],
  softmax_dtype: str = "float32",
) -> Float[Array, "b heads q k"]:
  """The mean of `values` under the weights softmax(scores), over n.

  The scores are the largest arrays of an encoder block, and passes over them
  much of its time. Here one array of them is kept, in the dtype that the
  product q k^T has, and the weights are made from it wherever a matrix product
  wants them, as part of that product. Automatic differentiation would keep
  the weights beside the scores, and make their gradients in passes of their
  own.

  Args:
    scores: logits of the weights.
    values: what is averaged.
    softmax_dtype: dtype of the weights; their sums are float32.

  Returns:
    The means, in the dtype of `values`.
  """
  return _weighted_mean(softmax_dtype, scores, values)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _weighted_mean(softmax_dtype, scores, values):
  return _forward(softmax_dtype, scores, values)[0]


def _forward(softmax_dtype, scores, values):
  shift = jnp.max(scores, axis=-1, keepdims=True)
  weights = _exp(softmax_dtype, scores, shift)
  total = jnp.sum(weights, axis=-1, keepdims=True, dtype=jnp.float32)
  # Division of the result, which is smaller than the scores.
  mean = jnp.einsum(
    "bhqn,bhnk->bhqk",
    weights.astype(values.dtype),
    values,
    preferred_element_type=jnp.float32,
  )
  mean = (mean / total).astype(values.dtype)
  return mean, (scores, shift, total, values, mean)


def _backward(softmax_dtype, saved, gradient):
  scores, shift, total, values, mean = saved
  weights = _exp(softmax_dtype, scores, shift).astype(jnp.float32) / total
  dvalues = jnp.einsum(
    "bhqn,bhqk->bhnk", weights.astype(values.dtype), gradient
  )
  dweights = jnp.einsum(
    "bhqk,bhnk->bhqn", gradient, values, preferred_element_type=jnp.float32
  )
  # The gradient's part along the weights, sum(dweights * weights), is that
  # along the mean: a sum over k, not over n.
  along = jnp.sum(
    gradient.astype(jnp.float32) * mean.astype(jnp.float32),
    axis=-1,
    keepdims=True,
  )
  dscores = weights * (dweights - along)
  return dscores.astype(scores.dtype), dvalues


_weighted_mean.defvjp(_forward, _backward)


def _exp(softmax_dtype, scores, shift):
  return jnp.exp(scores.astype(softmax_dtype) - shift.astype(softmax_dtype))
