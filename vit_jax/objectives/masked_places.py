"""The masked patches of each image, in arrays of a fixed shape.

Rectangles may mask fewer patches than are asked for. The places that are left
over count nothing, and the loss is the mean over all masked patches of the
global batch, as the released code has it of each GPU's.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from vit_jax.objectives import block_masks
from vit_jax.objectives.contract import Batch


def prepare(
  rng: Key[Array, ""], batch: Batch, count: int, grid: int, smallest: int
) -> Batch:
  """Draws which patches of the images of the global batch are masked.

  Args:
    rng: Key of this step.
    batch: Images, `image` [b, h, w, 3].
    count: Patches of an image to mask, at most.
    grid: Patches along a side.
    smallest: Least area of a rectangle, in patches.

  Returns:
    `image`; `mask` [b, n], True where a patch is masked; `places` and `weights`
    [b, count], as `find` has them.
  """
  images = batch["image"]
  counts = jnp.full(len(images), count, jnp.int32)
  mask = block_masks.draw(rng, counts, (grid, grid), smallest)
  places, weights = find(mask, count)
  return {"image": images, "mask": mask, "places": places, "weights": weights}


def find(
  mask: Bool[Array, "b n"], count: int
) -> tuple[Int[Array, "b k"], Float[Array, "b k"]]:
  """Numbers of the masked patches, and what each counts.

  Args:
    mask: At most `count` masked patches of each image.
    count: Length of the result.

  Returns:
    Numbers of patches, the masked ones first and in order; and weights, 0 of
    those that are not masked, of which the mean over images of their sum over
    patches is 1.
  """
  order = jnp.argsort(~mask, axis=1, stable=True)
  places = order[:, :count].astype(jnp.int32)
  is_masked = jnp.take_along_axis(mask, places, axis=1).astype(jnp.float32)
  total = jnp.maximum(is_masked.sum(), 1)
  return places, is_masked * (len(mask) / total)
