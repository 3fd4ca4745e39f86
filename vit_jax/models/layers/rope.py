"""Rotary positions of patches, arXiv 2104.09864, as EVA-02 has them.

Neighbouring units of a head are pairs, which turn by an angle that grows with
the patch's place: those of a head's first half with its row, those of the
second half with its column. Scores of rotated queries and keys then depend on
the patches' distance.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def rotate(
  x: Float[Array, "b n heads k"], turns: Float[Array, "2 n k"]
) -> Float[Array, "b n heads k"]:
  """Turns the pairs of units (a, b) to (a cos - b sin, b cos + a sin).

  It is computed in float32. The neighbours come by shifting all units by one
  place, which is cheaper on accelerators than taking every other one.

  Args:
    x: Queries or keys.
    turns: What `rope_table.table` returns.
  """
  cosines, sines = turns[:, None, :, None].astype(jnp.float32)
  is_first = np.arange(x.shape[-1]) % 2 == 0
  wide = x.astype(jnp.float32)
  neighbours = jnp.where(
    is_first, -jnp.roll(wide, -1, axis=-1), jnp.roll(wide, 1, axis=-1)
  )
  return (wide * cosines + neighbours * sines).astype(x.dtype)
