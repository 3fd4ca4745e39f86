"""The patches of an image, as pixels and as tokens in some places."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped


def cut(
  images: Shaped[Array, "b h w c"], size: int, grid: int
) -> Shaped[Array, "b n p p c"]:
  """The patches of images row by row; pixels that fill none are left out.

  On TPUs an array whose last axis is three colours takes up 128 lanes of every
  register, so a patch's pixels are moved row by row, and the barrier keeps what
  is done with them from being done in the images' layout.
  """
  batch, channels = images.shape[0], images.shape[3]
  images = images[:, : grid * size, : grid * size]
  images = images.reshape(batch, grid, size, grid, size * channels)
  patches = images.transpose(0, 1, 3, 2, 4).reshape(batch, grid**2, -1)
  patches = jax.lax.optimization_barrier(patches)
  return patches.reshape(batch, grid**2, size, size, channels)


def take(
  tokens: Float[Array, "b n d"], places: Int[Array, "b k"]
) -> Float[Array, "b k d"]:
  """The tokens at some places of each image; zeros where a place is -1.

  A product with ones and zeros, exact, is quicker on TPUs than gathering rows
  and, in the backward pass, adding them up one by one.
  """
  chosen = jax.nn.one_hot(places, tokens.shape[1], dtype=tokens.dtype)
  return jnp.einsum("bkn,bnd->bkd", chosen, tokens, precision="highest")


def put(
  tokens: Float[Array, "b k d"],
  places: Int[Array, "b k"],
  num_places: int,
) -> Float[Array, "b n d"]:
  """Puts tokens back where `take` found them; zeros in all other places."""
  chosen = jax.nn.one_hot(places, num_places, dtype=tokens.dtype)
  return jnp.einsum("bkn,bkd->bnd", chosen, tokens, precision="highest")


def join(
  patches: Shaped[Array, "b n p p c"], grid: int
) -> Shaped[Array, "b h w c"]:
  """The images that `cut` makes these patches of."""
  batch, _, size, _, channels = patches.shape
  images = patches.reshape(batch, grid, grid, size, size, channels)
  images = images.transpose(0, 1, 3, 2, 4, 5)
  return images.reshape(batch, grid * size, grid * size, channels)
