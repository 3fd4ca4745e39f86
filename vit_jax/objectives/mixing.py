"""Mixup and CutMix on a global batch.

Each image is mixed with its predecessor in the batch, which is as random as
any partner since the batch itself is, and moves one row per device only. One
ratio is drawn per batch, as in the methods' own code. Labels stay integers:
the loss is linear in the targets, so it is enough to remember both labels and
the share of the first.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key


def cutmix_box(
  rng: Key[Array, ""], ratio: Float[Array, ""], height: int, width: int
) -> Bool[Array, "h w"]:
  """The box that CutMix pastes: about `1 - ratio` of the image's area.

  Its centre is uniform over the image and what falls outside is cut off, as
  in the paper (arXiv 1905.04899), so that its area may be smaller.
  """
  side = jnp.sqrt(1 - ratio)

  def inside(rng: Key[Array, ""], size: int) -> Bool[Array, " size"]:
    centre = jax.random.randint(rng, (), 0, size)
    half = jnp.floor(side * size / 2).astype(jnp.int32)
    index = jnp.arange(size)
    return (index >= centre - half) & (index < centre + half)

  row_rng, column_rng = jax.random.split(rng)
  return inside(row_rng, height)[:, None] & inside(column_rng, width)[None, :]


def mix(
  images: Float[Array, "b h w c"],
  rng: Key[Array, ""],
  *,
  mixup_alpha: float,
  cutmix_alpha: float,
) -> tuple[Float[Array, "b h w c"], Float[Array, ""]]:
  """Mixes every image with the one before it, the first with the last.

  Args:
    images: Pixels on any affine scale.
    rng: Key of this step.
    mixup_alpha: Ratio ~ Beta(alpha, alpha) of mixup; 0: no mixup.
    cutmix_alpha: The same for CutMix; 0: no CutMix. With both, one is drawn
      per batch with probability 1/2.

  Returns:
    The mixed images, and the share of each image's own label in its target;
    that of the image before it has the rest.
  """
  height, width = images.shape[1:3]
  choice_rng, mixup_rng, cutmix_rng, box_rng = jax.random.split(rng, 4)
  kept = []  # (share of each pixel that is kept, its mean)
  if mixup_alpha:
    ratio = jax.random.beta(mixup_rng, mixup_alpha, mixup_alpha)
    kept.append((jnp.full((height, width), ratio), ratio))
  if cutmix_alpha:
    ratio = jax.random.beta(cutmix_rng, cutmix_alpha, cutmix_alpha)
    outside = ~cutmix_box(box_rng, ratio, height, width)
    share = jnp.count_nonzero(outside) / outside.size
    kept.append((outside.astype(jnp.float32), share))
  if len(kept) == 2:
    first = jax.random.bernoulli(choice_rng)
    kept = [jax.tree.map(lambda *pair: jnp.where(first, *pair), *kept)]
  ((weight, share),) = kept
  weight = weight.astype(images.dtype)[None, :, :, None]
  mixed = weight * images + (1 - weight) * jnp.roll(images, 1, axis=0)
  return mixed, share
