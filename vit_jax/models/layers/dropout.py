"""Dropout whose masks take a quarter of the random numbers."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p
from jaxtyping import Array, Bool, Float, Key, UInt32

# What a draw can be: 16 bits each.
_DRAWS = 2**16
_PER_BLOCK = 4
# Rows of a TPU's registers.
_SUBLANES = 8


class Dropout(nn.Module):
  """Zeroes entries with probability `rate`; scales the others so that the mean
  stays.

  Flax's draws 32 random bits for each entry and throws as many away, which
  makes up to half of a train step with dropout (docs/notes/performance.md). The
  probability here is `rate` rounded to a multiple of 2^-16, and the scale that
  belongs to it. Masks depend on key and shape alone, not on the mesh.
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
  """Number of the 2^16 draws that drop an entry; never all."""
  return min(round(rate * _DRAWS), _DRAWS - 1)


def keep_mask(
  key: Key[Array, ""], shape: tuple[int, ...], dropped: int
) -> Bool[Array, "..."]:
  """False with probability dropped / 2^16, independently for each entry.

  A block of threefry has 64 bits: four draws, for tokens that are a quarter of
  the length apart. Tokens lie on no axis of the mesh, so that laying the
  quarters side by side moves nothing between devices.

  Args:
    key: Key that the mask is drawn from.
    shape: Shape of the mask: any dimensions, tokens, width.
    dropped: Number of dropped draws out of 2^16.
  """
  *outer, num_tokens, width = shape
  rows = math.ceil(num_tokens / _PER_BLOCK)
  if rows >= _SUBLANES:
    # Then the quarters meet where registers do.
    rows = _SUBLANES * math.ceil(rows / _SUBLANES)
  quarters = [
    half >= jnp.uint32(dropped)
    for word in _blocks(key, (*outer, rows, width))
    for half in (word & jnp.uint32(_DRAWS - 1), word >> jnp.uint32(16))
  ]
  return jnp.concatenate(quarters, axis=-2)[..., :num_tokens, :]


def _blocks(
  key: Key[Array, ""], shape: tuple[int, ...]
) -> list[UInt32[Array, "..."]]:
  """Both words of threefry's block for each entry's place in an array."""
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
