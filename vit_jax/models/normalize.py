"""Pixel values as the network wants them."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

# (mean, standard deviation) per channel, in units of a byte.
PIXEL_STATISTICS = {
  "minus_one_to_one": ((127.5, 127.5, 127.5), (127.5, 127.5, 127.5)),
  "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}


def normalize(
  images: UInt8[Array | np.ndarray, "*b c"] | Float[Array | np.ndarray, "*b c"],
  kind: str,
  dtype: str = "float32",
) -> Float[Array, "*b c"]:
  """Bytes become (x - mean) / deviation; floats count as done and are cast.

  Args:
    images: channels last, uint8 in [0, 255] or already normalised floats.
    kind: a key of `PIXEL_STATISTICS`.
    dtype: of the result; the arithmetic is in float32.
  """
  if images.dtype != jnp.uint8:
    return jnp.asarray(images, dtype)
  mean, deviation = (np.float32(x) for x in PIXEL_STATISTICS[kind])
  shape = (1,) * (images.ndim - 1) + (-1,)
  normalized = jnp.asarray(images, jnp.float32) - mean.reshape(shape)
  return (normalized * (1 / deviation).reshape(shape)).astype(dtype)
