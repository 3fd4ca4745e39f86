"""Random erasing (arXiv 1708.04896) of a global batch, on the device.

Equivalent to timm's `RandomErasing` in mode 'pixel' with one box, as used by
DeiT and its successors: noise in a box of each chosen image, after
normalisation and before mixing.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

# Fraction of the image's area, and height / width.
_AREA = (0.02, 1 / 3)
_ASPECT = (0.3, 1 / 0.3)
_ATTEMPTS = 10


def erase(
  images: Float[Array, "b h w c"],
  rng: Key[Array, ""],
  *,
  probability: float,
) -> Float[Array, "b h w c"]:
  """Fills a box of some images with normal noise.

  Args:
    images: Normalised pixels.
    rng: Key of this step.
    probability: Fraction of the images that are erased. An image whose ten
      boxes all cross the border is left unchanged.
  """
  box_rng, noise_rng = jax.random.split(rng)
  boxes = erased(
    box_rng, images.shape[0], *images.shape[1:3], probability=probability
  )
  noise = jax.random.normal(noise_rng, images.shape, images.dtype)
  return jnp.where(boxes[..., None], noise, images)


def erased(
  rng: Key[Array, ""],
  num_images: int,
  height: int,
  width: int,
  *,
  probability: float,
) -> Bool[Array, "b h w"]:
  """Returns True within the boxes to erase."""
  chosen_rng, area_rng, aspect_rng, place_rng = jax.random.split(rng, 4)
  shape = (num_images, _ATTEMPTS)
  area = jax.random.uniform(
    area_rng, shape, minval=_AREA[0], maxval=_AREA[1]
  ) * (height * width)
  low, high = map(math.log, _ASPECT)
  aspect = jnp.exp(
    jax.random.uniform(aspect_rng, shape, minval=low, maxval=high)
  )
  heights = jnp.round(jnp.sqrt(area * aspect)).astype(jnp.int32)
  widths = jnp.round(jnp.sqrt(area / aspect)).astype(jnp.int32)
  fits = (heights < height) & (widths < width)
  first = jnp.argmax(fits, axis=1, keepdims=True)
  chosen = jax.random.bernoulli(chosen_rng, probability, (num_images,))
  chosen &= fits.any(axis=1)
  sides = jnp.stack([heights, widths], axis=-1)
  sides = jnp.take_along_axis(sides, first[..., None], axis=1)[:, 0]
  room = jnp.asarray([[height, width]]) - sides
  # All possible positions, both ends included.
  start = jax.random.randint(
    place_rng, sides.shape, 0, jnp.maximum(room, 0) + 1
  )

  def inside(axis: int, size: int) -> Bool[Array, "b size"]:
    index = jnp.arange(size)[None]
    first = start[:, axis, None]
    return (index >= first) & (index < first + sides[:, axis, None])

  box = inside(0, height)[:, :, None] & inside(1, width)[:, None, :]
  return box & chosen[:, None, None]
