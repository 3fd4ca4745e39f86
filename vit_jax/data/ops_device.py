"""Preprocessing ops that run inside the jitted step, on the global batch.

An op is a function of its arguments that returns `(images, rng) -> images`, all
uint8 [b, h, w, c]. jax is imported when this function is built, so that
preprocessing strings can be checked without it.
"""

from collections.abc import Callable
from typing import Any

from vit_jax.data.registry import register


@register("device")
def flip_lr() -> Callable[..., Any]:
  """Mirrors each image left to right with probability one half."""
  import jax
  import jax.numpy as jnp
  from jaxtyping import Array, Key, UInt8

  def flip(
    images: UInt8[Array, "b h w c"], rng: Key[Array, ""]
  ) -> UInt8[Array, "b h w c"]:
    mirrored = jax.random.bernoulli(rng, shape=(images.shape[0], 1, 1, 1))
    return jnp.where(mirrored, images[:, :, ::-1], images)

  return flip
