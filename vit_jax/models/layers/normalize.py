"""Normalisation of pixel values for the network."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from vit_jax.config import pixels
from vit_jax.errors import UserError

# `normalize` checks the dtypes and reports wrong ones in a message.
Images = Shaped[Array | np.ndarray, "b h w c"]

_logger = logging.getLogger(__name__)
_doubted: set[str] = set()  # Values of `kind` already warned about.


def normalize(
  images: Shaped[Array | np.ndarray, "*b c"],
  kind: str,
  dtype: str = "float32",
) -> Float[Array, "*b c"]:
  """Maps bytes to (x - mean) / deviation; floats are only cast.

  Args:
    images: Channels-last images, uint8 in [0, 255] or already normalised
      floats.
    kind: Value of `config.model.normalize`.
    dtype: Dtype of the result; the arithmetic is in float32.

  Raises:
    UserError: The images are of other integers, or their channels come first.
  """
  if images.ndim == 4 and images.shape[1] == 3 and images.shape[3] > 4:
    raise UserError(
      f"Images of shape {images.shape} have their channels first; channels come"
      " last here: give images.transpose(0, 2, 3, 1)."
    )
  if jnp.issubdtype(images.dtype, jnp.floating):
    if kind not in _doubted and _is_here(images):
      _doubt_floats(images, kind)
    return jnp.asarray(images, dtype)
  if images.dtype != jnp.uint8:
    raise UserError(
      f"Images of dtype {images.dtype} are neither bytes nor normalised; give"
      " uint8 in [0, 255], or floats that are normalised already."
    )
  mean, deviation = (
    np.float32([255 * x for x in part]) for part in pixels.parse(kind)
  )
  shape = (1,) * (images.ndim - 1) + (-1,)
  normalized = jnp.asarray(images, jnp.float32) - mean.reshape(shape)
  return (normalized * (1 / deviation).reshape(shape)).astype(dtype)


def _is_here(images: Array | np.ndarray) -> bool:
  """Tells whether an array has values, all of them in this process."""
  if isinstance(images, jax.core.Tracer):
    return False
  return isinstance(images, np.ndarray) or images.is_fully_addressable


def _doubt_floats(images: Array | np.ndarray, kind: str) -> None:
  """Warns about floats twice as large as normalised bytes can be."""
  mean, deviation = map(np.array, pixels.parse(kind))
  limit = 2 * float(np.max(np.maximum(mean, 1 - mean) / deviation))
  with jax.ensure_compile_time_eval():  # They may be constants of a trace.
    largest = float(jnp.max(jnp.abs(images), initial=0))
  if largest > limit:
    _doubted.add(kind)
    _logger.warning(
      "Float images count as normalised already (%s), but their values reach"
      " %.3g where pixels then have %.3g at most. Give bytes as uint8, or"
      " normalise them.",
      kind,
      largest,
      limit / 2,
    )
