"""The masked patches of each image, in arrays of a fixed shape.

Rectangles alone may mask fewer patches than requested. The remaining places
have weight 0, and the loss is the mean over all masked patches of the global
batch, as it is for each GPU's batch in the released code.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from vit_jax.objectives import block_masks
from vit_jax.objectives.contract import Batch


def prepare(
  rng: Key[Array, ""],
  batch: Batch,
  count: int,
  grid: int,
  smallest: int,
  *,
  fill: bool = False,
) -> Batch:
  """Draws the masked patches of the images of the global batch.

  Args:
    rng: Key of this step.
    batch: Images, `image` [b, h, w, 3].
    count: Maximum number of patches to mask per image.
    grid: Patches along a side.
    smallest: Minimum area of a rectangle, in patches.
    fill: True to mask single patches where rectangles mask too few.

  Returns:
    `image`; `mask` [b, n], True where a patch is masked; `places` and `weights`
    [b, count], as returned by `find`.
  """
  images = batch["image"]
  counts = jnp.full(len(images), count, jnp.int32)
  mask = block_masks.draw(rng, counts, (grid, grid), smallest)
  if fill:
    mask = block_masks.fill(jax.random.fold_in(rng, 0), mask, count)
  places, weights = find(mask, count)
  return {"image": images, "mask": mask, "places": places, "weights": weights}


def find(
  mask: Bool[Array, "b n"], count: int
) -> tuple[Int[Array, "b k"], Float[Array, "b k"]]:
  """Finds the indices of the masked patches, and their weights.

  Args:
    mask: At most `count` masked patches per image.
    count: Length of the result.

  Returns:
    Indices of patches, the masked ones first and in order; and weights, 0 for
    those that are not masked, whose sum over patches has a mean of 1 over
    images.
  """
  order = jnp.argsort(~mask, axis=1, stable=True)
  places = order[:, :count].astype(jnp.int32)
  is_masked = jnp.take_along_axis(mask, places, axis=1).astype(jnp.float32)
  total = jnp.maximum(is_masked.sum(), 1)
  return places, is_masked * (len(mask) / total)
