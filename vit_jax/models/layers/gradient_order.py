"""Order of gradients in memory."""

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float


@jax.custom_vjp
def row_major(tokens: Float[Array, "b n d"]) -> Float[Array, "b n d"]:
  """`tokens`, with a gradient that lies in memory in the order of its shape."""
  return tokens


def _forward(tokens):
  return tokens, None


def _backward(_, gradient):
  return (with_layout_constraint(gradient, Layout((0, 1, 2))),)


row_major.defvjp(_forward, _backward)
