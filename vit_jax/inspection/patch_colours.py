"""Patch features as colours: similar patches look similar in all images."""

import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.inspection import principal_components

_NUM_COLOURS = 3
# Standard deviations from the mean at which a colour saturates.
_FULL = 2.0


def basis(
  tokens: Float[np.ndarray, "images rows columns d"],
) -> principal_components.Components:
  """Computes the first three components of all images' patches together."""
  flat = tokens.reshape(-1, tokens.shape[-1])
  return principal_components.find(flat, _NUM_COLOURS)


def colours(
  tokens: Float[np.ndarray, "images rows columns d"],
  components: principal_components.Components,
) -> UInt8[np.ndarray, "images rows columns 3"]:
  """Maps the components to red, green and blue; grey is the mean.

  A component ranges from two deviations below its mean, 0, to two above. If
  there are fewer than three, the others are grey.
  """
  flat = tokens.reshape(-1, tokens.shape[-1])
  deviations = components.deviations
  scale = np.where(deviations > 0, deviations, 1) * _FULL
  values = np.zeros((len(flat), _NUM_COLOURS))
  values[:, : len(scale)] = components.project(flat) / scale
  pixels = np.rint((np.clip(values, -1, 1) + 1) * 127.5).astype(np.uint8)
  return pixels.reshape(*tokens.shape[:-1], _NUM_COLOURS)
