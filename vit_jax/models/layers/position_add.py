"""Addition of a table shared by all examples to tokens."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float

from vit_jax.models.layers import placement


def add_positions(
  tokens: Float[Array, "b n d"], table: Float[Array | np.ndarray, "n d"]
) -> Float[Array, "b n d"]:
  """Adds a position embedding, in the dtype of the tokens.

  On a GPU the memory layout of the gradient is fixed. For the table's gradient,
  a sum over examples, XLA would otherwise place examples next to each other and
  keep all tokens of the network in that order, [n, d, b]: a step of B/16 on an
  H100 then takes 1.16 times as long.
  """
  where = None
  if placement.platform() == "gpu":
    where = placement.of(("batch", None, None), batch=tokens.shape[0])
  return _add(where, tokens, table)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _add(where, tokens, table):
  del where
  return tokens + table.astype(tokens.dtype)[None]


def _forward(where, tokens, table):
  return _add(where, tokens, table), table[:0]


def _backward(where, empty, gradient):
  if where is not None:
    # XLA cannot split a layout constraint and would gather the array.
    gradient = where.on_each_device(_in_order)(gradient)
  total = jnp.sum(gradient, axis=0, dtype=jnp.float32)
  return gradient, total.astype(empty.dtype)


def _in_order(gradient):
  return with_layout_constraint(gradient, Layout((0, 1, 2)))


_add.defvjp(_forward, _backward)
