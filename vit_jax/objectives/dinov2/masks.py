"""Masking of patches for the student: dinov2's collate.py.

In each group of images some global crops are masked, with fractions spread
evenly over a range, and the others are not. The number of masked patches per
group is thus bounded by a number known in advance.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from vit_jax.objectives import block_masks
from vit_jax.objectives.dinov2.plan import Plan

SMALLEST = 4  # Minimum patches per rectangle.


def draw(
  rng: Key[Array, ""], plan: Plan, num_images: int
) -> Bool[Array, "b crops patches"]:
  """Draws the masked patches of each global crop."""
  count_rng, order_rng, mask_rng = jax.random.split(rng, 3)
  groups = num_images // plan.group
  drawn = jax.random.uniform(count_rng, (groups, plan.num_masked))
  low, high = (jnp.asarray(ends)[None] for ends in plan.shares)
  counts = (low + drawn * (high - low)) * plan.num_patches
  counts = jnp.pad(
    counts.astype(jnp.int32), ((0, 0), (0, plan.num_crops - plan.num_masked))
  )
  rngs = jax.random.split(order_rng, groups)
  counts = jax.vmap(jax.random.permutation)(rngs, counts)
  found = block_masks.draw(
    mask_rng, counts.reshape(-1), (plan.grid, plan.grid), SMALLEST
  )
  return found.reshape(num_images, plan.crops_per_image, -1)


def take(
  tokens: Float[Array, "b c n d"], places: Int[Array, "g u"]
) -> Float[Array, "g u d"]:
  """Gathers the patches of each group that `find` returned."""
  groups = tokens.reshape(len(places), -1, tokens.shape[-1])
  return jnp.take_along_axis(groups, places[:, :, None], axis=1)


def find(
  mask: Bool[Array, "b c n"], plan: Plan
) -> tuple[Int[Array, "g u"], Float[Array, "g u"]]:
  """Finds the masked patches of each group, and their weights.

  Returns:
    Indices of the patches within the group, and weights: one over the number of
    masked patches in their crop, 0 for padding.
  """
  groups = mask.reshape(-1, plan.num_crops, mask.shape[2])
  of_crop = jnp.maximum(groups.sum(axis=2, keepdims=True), 1)
  shares = jnp.where(groups, 1 / of_crop, 0.0)

  def of_group(mask, shares):
    (places,) = jnp.nonzero(mask.reshape(-1), size=plan.bound, fill_value=0)
    is_there = jnp.arange(plan.bound) < mask.sum()
    weights = jnp.where(is_there, shares.reshape(-1)[places], 0.0)
    return places.astype(jnp.int32), weights

  return jax.vmap(of_group)(groups, shares)
