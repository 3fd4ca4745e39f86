"""Overlaying maps over the grid of patches on their image."""

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image


def relative(
  values: Float[np.ndarray, "*b rows columns"],
) -> Float[np.ndarray, "*b rows columns"]:
  """Divides each map by its own maximum; a map of zeros is unchanged."""
  largest = values.max(axis=(-2, -1), keepdims=True)
  return values / np.where(largest > 0, largest, 1)


def mask(
  image: UInt8[np.ndarray, "h w 3"], values: Float[np.ndarray, "rows columns"]
) -> UInt8[np.ndarray, "h w 3"]:
  """Darkens the image where the map is small, as in figure 6 of the paper.

  The map is divided by its maximum and interpolated between patches.
  """
  small = Image.fromarray(relative(values).astype(np.float32))
  size = (image.shape[1], image.shape[0])
  large = np.asarray(small.resize(size, Image.Resampling.BILINEAR))
  return np.rint(image * np.clip(large, 0, 1)[..., None]).astype(np.uint8)
