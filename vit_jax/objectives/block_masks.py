"""Masks of rectangles of patches: BEiT's masking_generator.py.

Rectangles of random area and proportions are placed on the grid, possibly
overlapping, until the given number of patches is masked or no rectangle fits,
in which case fewer are masked.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

# Maximum number of rectangles tried, and of consecutive failures.
_ATTEMPTS, _FAILURES = 64, 10
_LOG_ASPECT = math.log(1 / 0.3)


def draw(
  rng: Key[Array, ""],
  counts: Int[Array, " n"],
  grid: tuple[int, int],
  smallest: int,
) -> Bool[Array, "n patches"]:
  """Draws a mask of at most `counts` patches for each image.

  Args:
    rng: Key.
    counts: Number of patches to mask; 0: none.
    grid: Rows and columns of the patches.
    smallest: Minimum area of a rectangle, in patches.

  Returns:
    True where a patch is masked, row by row.
  """
  rngs = jax.random.split(rng, len(counts))
  masks = jax.vmap(lambda key, count: _draw(key, count, grid, smallest))(
    rngs, counts
  )
  return masks.reshape(len(counts), -1)


def fill(
  rng: Key[Array, ""], mask: Bool[Array, "n patches"], count: int
) -> Bool[Array, "n patches"]:
  """Masks more patches, at random places, until `count` are masked.

  As masking_generator.py of BEiT v2 does after the rectangles.

  Args:
    rng: Key.
    mask: At most `count` masked patches per image.
    count: Number of patches to mask.
  """
  # Masked patches come first.
  order = jnp.argsort(jax.random.uniform(rng, mask.shape) - mask, axis=1)
  return jnp.argsort(order, axis=1) < count


def _draw(rng, count, grid, smallest):
  rows, columns = grid
  row = jnp.arange(rows)[:, None]
  column = jnp.arange(columns)[None, :]
  largest = rows * columns // 2

  def attempt(carry, rng):
    mask, failures = carry
    left = count - mask.sum()
    area_rng, aspect_rng, place_rng = jax.random.split(rng, 3)
    most = jnp.minimum(left, largest)
    area = smallest + jax.random.uniform(area_rng) * (most - smallest)
    aspect = jnp.exp(
      jax.random.uniform(aspect_rng, minval=-_LOG_ASPECT, maxval=_LOG_ASPECT)
    )
    height = jnp.round(jnp.sqrt(area * aspect)).astype(jnp.int32)
    width = jnp.round(jnp.sqrt(area / aspect)).astype(jnp.int32)
    place = jax.random.uniform(place_rng, (2,))
    top = jnp.floor(place[0] * (rows - height + 1)).astype(jnp.int32)
    side = jnp.floor(place[1] * (columns - width + 1)).astype(jnp.int32)
    covered = (row >= top) & (row < top + height)
    covered &= (column >= side) & (column < side + width)
    more = (covered & ~mask).sum()
    fits = (height < rows) & (width < columns) & (left > 0)
    fits &= (more > 0) & (more <= most) & (failures < _FAILURES)
    # Ten consecutive failures end the search.
    failures = jnp.where(fits, 0, jnp.minimum(failures + 1, _FAILURES)).astype(
      jnp.int32
    )
    return (jnp.where(fits, mask | covered, mask), failures), None

  start = jnp.zeros((rows, columns), bool), jnp.zeros((), jnp.int32)
  (mask, _), _ = jax.lax.scan(attempt, start, jax.random.split(rng, _ATTEMPTS))
  return mask
