"""Angles of rotary positions, arXiv 2104.09864, as in EVA-02 and DINOv3.

NumPy only: a file that stores them is compared with the same numbers that a
compiled step has as constants.
"""

import numpy as np
from jaxtyping import Float32


def table(
  grid: tuple[int, int],
  head_size: int,
  *,
  reference: int | None,
  num_prefix: int = 0,
  base: float = 10_000.0,
  coordinates: str = "patches",
) -> Float32[np.ndarray, "2 n k"]:
  """Cosines and sines of the angles by which the tokens' units are rotated.

  Args:
    grid: Rows and columns of the patches.
    head_size: Units of a head, a multiple of 4.
    reference: Rows and columns to which those of any grid are scaled, so that
      larger images have finer steps; None for steps of one.
    num_prefix: Number of tokens before the patches, which are not rotated.
    base: Base of the powers by which the pairs' frequencies fall.
    coordinates: 'patches' to count rows and columns; 'unit' to measure the
      patches' centres in an image from -1 to 1 along each axis, where 1 is a
      full turn and `reference` has no effect.
  """
  frequencies = base ** -(np.arange(0, head_size // 2, 2) / (head_size // 2))
  by_axis = []
  for size in grid:
    if coordinates == "unit":
      places = 2 * np.pi * ((2 * np.arange(size) + 1) / size - 1)
    else:
      step = 1.0 if reference is None else reference / size
      places = np.arange(size) * step
    by_axis.append(np.repeat(places[:, None] * frequencies, 2, axis=1))
  rows, columns = by_axis
  shape = (*grid, head_size // 2)
  angles = np.concatenate(
    [
      np.broadcast_to(rows[:, None], shape),
      np.broadcast_to(columns[None], shape),
    ],
    axis=-1,
  ).reshape(-1, head_size)
  angles = np.concatenate([np.zeros((num_prefix, head_size)), angles])
  return np.stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
