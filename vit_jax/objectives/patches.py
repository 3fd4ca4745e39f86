"""Splitting images into patches, and joining patches to images."""

import jax
from jaxtyping import Array, Shaped


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


def join(
  patches: Shaped[Array, "b n p p c"], grid: int
) -> Shaped[Array, "b h w c"]:
  """Joins patches into images; the inverse of `cut`."""
  batch, _, size, _, channels = patches.shape
  images = patches.reshape(batch, grid, grid, size, size, channels)
  images = images.transpose(0, 1, 3, 2, 4, 5)
  return images.reshape(batch, grid * size, grid * size, channels)
