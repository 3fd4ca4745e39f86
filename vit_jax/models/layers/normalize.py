"""Pixel values as the network wants them."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.config import pixels

Images = (
  UInt8[Array | np.ndarray, "b h w c"] | Float[Array | np.ndarray, "b h w c"]
)


def normalize(
  images: UInt8[Array | np.ndarray, "*b c"] | Float[Array | np.ndarray, "*b c"],
  kind: str,
  dtype: str = "float32",
) -> Float[Array, "*b c"]:
  """Bytes become (x - mean) / deviation; floats count as done and are cast.

  Args:
    images: Channels-last images, uint8 in [0, 255] or already normalised
      floats.
    kind: Value of `config.model.normalize`.
    dtype: Dtype of the result; the arithmetic is in float32.
  """
  if images.dtype != jnp.uint8:
    return jnp.asarray(images, dtype)
  mean, deviation = (
    np.float32([255 * x for x in part]) for part in pixels.parse(kind)
  )
  shape = (1,) * (images.ndim - 1) + (-1,)
  normalized = jnp.asarray(images, jnp.float32) - mean.reshape(shape)
  return (normalized * (1 / deviation).reshape(shape)).astype(dtype)
