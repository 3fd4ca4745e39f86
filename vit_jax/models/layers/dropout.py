"""Dropout whose masks need a quarter of the random bits."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p
from jaxtyping import Array, Bool, Float, Key, UInt32

from vit_jax.models.layers.tpu_core import SUBLANES

# Possible values of a draw of 16 bits.
_DRAWS = 2**16
_PER_BLOCK = 4


class Dropout(nn.Module):
  """Zeroes entries with probability `rate`; scales the others to keep the mean.

  Flax's Dropout draws 32 random bits for each entry and discards as many, which
  takes up to half of a train step with dropout (docs/notes/performance.md).
  Here the probability is `rate` rounded to a multiple of 2^-16, with the
  matching scale. Masks depend only on key and shape, not on the mesh.
  """

  rate: float
  deterministic: bool

  @nn.compact
  def __call__(self, x: Float[Array, "*b n d"]) -> Float[Array, "*b n d"]:
    dropped = dropped_draws(self.rate)
    if self.deterministic or not dropped:
      return x
    kept = keep_mask(self.make_rng("dropout"), x.shape, dropped)
    scale = jnp.asarray(_DRAWS / (_DRAWS - dropped), x.dtype)
    return jnp.where(kept, x * scale, jnp.zeros((), x.dtype))


def dropped_draws(rate: float) -> int:
  """Number of the 2^16 possible draws that drop an entry; never all of them."""
  return min(round(rate * _DRAWS), _DRAWS - 1)


def keep_mask(
  key: Key[Array, ""], shape: tuple[int, ...], dropped: int
) -> Bool[Array, "..."]:
  """False with probability dropped / 2^16, independently for each entry.

  A block of threefry has 64 bits: four draws, for tokens that are a quarter of
  the length apart. Tokens are not split over the mesh, so concatenating the
  quarters moves nothing between devices.

  Args:
    key: Random key for the mask.
    shape: Shape of the mask: any dimensions, tokens, width.
    dropped: Number of dropped draws out of 2^16.
  """
  *outer, num_tokens, width = shape
  rows = math.ceil(num_tokens / _PER_BLOCK)
  if rows >= SUBLANES:
    # Then the borders of quarters are those of registers.
    rows = SUBLANES * math.ceil(rows / SUBLANES)
  quarters = [
    half >= jnp.uint32(dropped)
    for word in _blocks(key, (*outer, rows, width))
    for half in (word & jnp.uint32(_DRAWS - 1), word >> jnp.uint32(16))
  ]
  return jnp.concatenate(quarters, axis=-2)[..., :num_tokens, :]


def _blocks(
  key: Key[Array, ""], shape: tuple[int, ...]
) -> list[UInt32[Array, "..."]]:
  """Both words of threefry's block for the place of each entry in an array."""
  first, second = jax.random.bits(key, (2,), "uint32")
  place = jnp.zeros(shape, "uint32")
  for axis in range(1, len(shape)):
    index = jax.lax.broadcasted_iota("uint32", shape, axis)
    place = place * jnp.uint32(shape[axis]) + index
  return threefry2x32_p.bind(
    jnp.broadcast_to(first, shape),
    jnp.broadcast_to(second, shape),
    jax.lax.broadcasted_iota("uint32", shape, 0),
    place,
  )
