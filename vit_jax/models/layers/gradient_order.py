"""Memory layout of gradients on TPUs."""

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float

from vit_jax.models.layers.tpu_core import LANES


@jax.custom_vjp
def fill_lanes(tokens: Float[Array, "b n d"]) -> Float[Array, "b n d"]:
  """`tokens`, with a gradient laid out to fill registers, examples outermost.

  The innermost dimension is the one that uses more of the lanes: channels,
  unless there are, for example, 192 of them and 197 tokens. If channels fill
  all lanes, the compiler chooses: with this order imposed, a DINO of 384
  channels and crops of 37 tokens takes 1.17 times the cycles.
  """
  return tokens


def _forward(tokens):
  return tokens, None


def _backward(_, gradient):
  _, length, width = gradient.shape
  if _filled(width) == 1:
    return (gradient,)
  order = (0, 1, 2) if _filled(width) >= _filled(length) else (0, 2, 1)
  return (with_layout_constraint(gradient, Layout(order)),)


fill_lanes.defvjp(_forward, _backward)


def _filled(size: int) -> float:
  """Share of the lanes that a dimension of this size uses."""
  return size / (-(-size // LANES) * LANES)
