"""Mixup and CutMix on a global batch.

Each image is mixed with an earlier one in the batch. Because the batch is
random, this is as random as any other partner, and only one row per device
moves. Labels remain integers: the loss is linear in the targets, so it is
enough to keep both labels and the share of the first.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key


def cutmix_box(
  rng: Key[Array, ""], ratio: Float[Array, ""], height: int, width: int
) -> Bool[Array, "h w"]:
  """Draws the box that CutMix pastes: about `1 - ratio` of the image's area.

  Its centre is uniform over the image and the part outside is cut off, as in
  the paper (arXiv 1905.04899), so its area may be smaller.
  """
  side = jnp.sqrt(1 - ratio)

  def inside(rng: Key[Array, ""], size: int) -> Bool[Array, " size"]:
    centre = jax.random.randint(rng, (), 0, size)
    half = jnp.floor(side * size / 2).astype(jnp.int32)
    index = jnp.arange(size)
    return (index >= centre - half) & (index < centre + half)

  row_rng, column_rng = jax.random.split(rng)
  return inside(row_rng, height)[:, None] & inside(column_rng, width)[None, :]


def partners(x: Array, *, mode: str, repeats: int = 1) -> Array:
  """Returns the rows with which the rows of a batch are mixed.

  Args:
    x: Array whose first axis is the batch.
    mode: With 'pair', mirrored rows such as [0] and [-1] are partners;
      otherwise a row's partner is `repeats` rows before it, wrapping around.
    repeats: Number of consecutive rows of the same example.
  """
  if mode == "pair":
    return x[::-1]
  return jnp.roll(x, repeats, axis=0)


def mix(
  images: Float[Array, "b h w c"],
  rng: Key[Array, ""],
  *,
  mixup_alpha: float,
  cutmix_alpha: float,
  probability: float = 1.0,
  switch: float = 0.5,
  mode: str = "batch",
  repeats: int = 1,
) -> tuple[Float[Array, "b h w c"], Float[Array, " b"]]:
  """Mixes every image with its partner.

  Args:
    images: Pixels on any affine scale.
    rng: Key of this step.
    mixup_alpha: Ratio ~ Beta(alpha, alpha) of mixup; 0 for no mixup.
    cutmix_alpha: The same for CutMix; 0 for no CutMix.
    probability: Probability that anything is mixed.
    switch: Probability of CutMix, if both are enabled.
    mode: Granularity of the draws, as in timm's `Mixup`: 'batch' is one per
      batch, 'pair' one per pair of partners, 'elem' one per image.
    repeats: As in `partners`.

  Returns:
    The mixed images, and the share of each image's own label in its target; the
    rest is the partner's label.
  """
  batch, height, width = images.shape[:3]
  draw = _draw(mixup_alpha, cutmix_alpha, probability, switch, height, width)
  if mode == "batch":
    weight, share = (x[None] for x in draw(rng))
  elif mode == "elem":
    weight, share = jax.vmap(draw)(jax.random.split(rng, batch))
  else:
    drawn = jax.vmap(draw)(jax.random.split(rng, batch // 2))
    weight, share = (jnp.concatenate([x, x[::-1]]) for x in drawn)
  weight = weight.astype(images.dtype)[..., None]
  other = partners(images, mode=mode, repeats=repeats)
  mixed = weight * images + (1 - weight) * other
  return mixed, jnp.broadcast_to(share, (batch,))


def _draw(mixup_alpha, cutmix_alpha, probability, switch, height, width):
  """Returns a function of a key: each pixel's kept share, and its mean."""

  def draw(
    rng: Key[Array, ""],
  ) -> tuple[Float[Array, "h w"], Float[Array, ""]]:
    choice_rng, mixup_rng, cutmix_rng, box_rng, mixes_rng = jax.random.split(
      rng, 5
    )
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
      first = jax.random.bernoulli(choice_rng, 1 - switch)
      kept = [jax.tree.map(lambda *pair: jnp.where(first, *pair), *kept)]
    ((weight, share),) = kept
    if probability < 1:
      mixes = jax.random.bernoulli(mixes_rng, probability)
      weight, share = (jnp.where(mixes, x, 1.0) for x in (weight, share))
    return weight, share

  return draw
