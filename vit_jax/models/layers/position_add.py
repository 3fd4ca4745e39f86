"""The sum of tokens and of a table that all examples share."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_vjp
def add_positions(
  tokens: Float[Array, "b n d"], table: Float[Array, "n d"]
) -> Float[Array, "b n d"]:
  """Adds a position embedding, in the dtype of the tokens.

  The table's gradient, a sum over examples, is made by a matrix product. Of a
  reduction XLA for GPUs would rather have the examples next to each other in
  memory, and then keeps all tokens of the network in that order, [n, d, b]: a
  step of B/16 reads and writes 18 % more.
  """
  return tokens + table.astype(tokens.dtype)[None]


def _forward(tokens, table):
  return add_positions(tokens, table), table[:0]


def _backward(empty, gradient):
  examples, length, width = gradient.shape
  total = jnp.matmul(
    jnp.ones((1, examples), gradient.dtype),
    gradient.reshape(examples, length * width),
    precision="highest",
    preferred_element_type=jnp.float32,
  )
  return gradient, total.reshape(length, width).astype(empty.dtype)


add_positions.defvjp(_forward, _backward)
