"""Splitting images into patches, and joining patches to images."""

import jax
from jaxtyping import Array, Int, Shaped

from vit_jax.models.layers import token_places


def cut(
  images: Shaped[Array, "b h w c"], size: int, grid: int
) -> Shaped[Array, "b n p p c"]:
  """Cuts images into patches row by row; incomplete patches are left out.

  On TPUs an array whose last axis is three colours occupies 128 lanes of every
  register, so a patch's pixels are moved row by row, and the barrier keeps
  later operations from using the images' layout.
  """
  batch, channels = images.shape[0], images.shape[3]
  images = images[:, : grid * size, : grid * size]
  images = images.reshape(batch, grid, size, grid, size * channels)
  patches = images.transpose(0, 1, 3, 2, 4).reshape(batch, grid**2, -1)
  patches = jax.lax.optimization_barrier(patches)
  return patches.reshape(batch, grid**2, size, size, channels)


def column(
  images: Shaped[Array, "b h w c"],
  places: Int[Array, "b k"],
  size: int,
  grid: int,
  dtype: str,
) -> Shaped[Array, "b ks s c"]:
  """Takes some patches of each image, one below the other: an image too.

  Args:
    images: Images.
    places: Indices of the patches, row by row.
    size: Side of a patch, pixels.
    grid: Patches along a side of the image.
    dtype: Dtype in which they are moved; bytes are exact in all of ours.
  """
  patches = cut(images, size, grid)
  pixels = patches.reshape(*patches.shape[:2], -1).astype(dtype)
  taken = token_places.take(pixels, places).astype(images.dtype)
  return taken.reshape(len(images), -1, size, images.shape[3])


def join(
  patches: Shaped[Array, "b n p p c"], grid: int
) -> Shaped[Array, "b h w c"]:
  """Joins patches into images; the inverse of `cut`."""
  batch, _, size, _, channels = patches.shape
  images = patches.reshape(batch, grid, grid, size, size, channels)
  images = images.transpose(0, 1, 3, 2, 4, 5)
  return images.reshape(batch, grid * size, grid * size, channels)
