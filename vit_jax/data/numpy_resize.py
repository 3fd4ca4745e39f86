"""Resizing in NumPy, bitwise equal to `tf.image.resize`.

TensorFlow has a kernel for each method, and one for all methods with
antialiasing. They differ in the rounding of positions and the order of float32
additions; each is reproduced here step by step, with a reference to its file in
tensorflow/core/kernels/image.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int, UInt8

_F = np.float32
# Entries per unit in the table of cubic weights; resize_bicubic_op.cc.
_CUBIC_STEPS = 1024
# Weights with a smaller sum are not normalised.
_TINY = 1000 * np.finfo(_F).tiny

Channels = Float32[np.ndarray, "h w c"]


class _Taps(NamedTuple):
  """The inputs of each output along one axis, with weight 0 beyond the edge."""

  indices: Int[np.ndarray, "taps outputs"]
  weights: Float32[np.ndarray, "taps outputs"]


def resize(
  pixels: UInt8[np.ndarray, "h w c"],
  height: int,
  width: int,
  method: str,
  antialias: bool,
) -> UInt8[np.ndarray, "height width c"]:
  """Resizes and rounds, with halves rounded up.

  Args:
    pixels: The image.
    height, width: Size of the result, pixels.
    method: 'bilinear', 'bicubic' or 'area'.
    antialias: True to average over all pixels that shrink to one; 'area' always
      does.
  """
  sides = (height, width)
  if method == "area":
    result = _area(pixels, sides)
  elif antialias:
    result = _antialiased(pixels, sides, method)
  elif method == "bicubic":
    result = _bicubic(pixels, sides)
  else:
    result = _bilinear(pixels, sides)
  return (np.clip(result, 0, 255) + 0.5).astype(np.uint8)


def _bilinear(pixels: np.ndarray, sides: tuple[int, int]) -> Channels:
  """Interpolates between neighbours, rows first; resize_bilinear_op.cc."""

  def neighbours(inputs: int, outputs: int):
    places = _centres(inputs, outputs)
    low = np.floor(places)
    return (
      np.maximum(low, 0).astype(np.int64),
      np.minimum(np.ceil(places), inputs - 1).astype(np.int64),
      places - low,
    )

  top, bottom, down = neighbours(pixels.shape[0], sides[0])
  left, right, along = neighbours(pixels.shape[1], sides[1])
  rows = np.unique(np.concatenate([top, bottom]))
  lines = pixels[rows]
  start = lines[:, left].astype(_F)
  lines = start + (lines[:, right] - start) * along[:, None]
  upper = lines[np.searchsorted(rows, top)]
  lower = lines[np.searchsorted(rows, bottom)]
  return upper + (lower - upper) * down[:, None, None]


def _centres(inputs: int, outputs: int) -> Float32[np.ndarray, " outputs"]:
  """Centres of the outputs, in input pixels from the centre of the first."""
  scale = _F(inputs) / _F(outputs)
  return (np.arange(outputs, dtype=_F) + 0.5) * scale - 0.5


def _bicubic(pixels: np.ndarray, sides: tuple[int, int]) -> Channels:
  """Weighs four neighbours, columns first; resize_bicubic_op.cc."""
  # A table in float64, rounded.
  steps = np.arange(_CUBIC_STEPS + 1) / _CUBIC_STEPS
  near, far = _cubic(steps, 0).astype(_F), _cubic(steps + 1, 1).astype(_F)

  def taps(inputs: int, outputs: int) -> _Taps:
    places = _centres(inputs, outputs)
    low = np.floor(places).astype(np.int64)
    step = np.rint((places - low.astype(_F)) * _CUBIC_STEPS).astype(int)
    rest = _CUBIC_STEPS - step
    weights = np.stack([far[step], near[step], near[rest], far[rest]])
    indices = low + np.arange(-1, 3)[:, None]
    inside = np.clip(indices, 0, inputs - 1)
    weights[indices != inside] = 0
    return _Taps(inside, _normalized(weights))

  columns = _weigh(pixels, taps(pixels.shape[0], sides[0]), 0)
  return _weigh(columns, taps(pixels.shape[1], sides[1]), 1)


def _cubic(x: np.ndarray, piece: int) -> np.ndarray:
  """Keys' cubic kernel at a distance from 0 to 1, or 1 to 2, in x's type."""
  if piece == 0:
    return (1.5 * x - 2.5) * x * x + 1
  return ((-0.5 * x + 2.5) * x - 4) * x + 2


def _antialiased(
  pixels: np.ndarray, sides: tuple[int, int], method: str
) -> Channels:
  """Weighs with a kernel as wide as the step; scale_and_translate_op.cc."""

  def kernel(x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    if method == "bilinear":
      return np.maximum(1 - x, 0)
    beyond = np.where(x < 2, _cubic(x, 1), 0)
    return np.where(x < 1, _cubic(x, 0), beyond)

  radius = 2 if method == "bicubic" else 1
  for axis, outputs in enumerate(sides):
    taps = _kernel_taps(pixels.shape[axis], outputs, kernel, radius)
    pixels = _weigh(pixels, taps, axis)
  return pixels


def _kernel_taps(
  inputs: int,
  outputs: int,
  kernel: Callable[[np.ndarray], np.ndarray],
  radius: int,
) -> _Taps:
  step = _F(1) / (_F(outputs) / _F(inputs))
  stretch = max(step, _F(1))
  reach = radius * stretch
  centres = (np.arange(outputs, dtype=_F) + 0.5) * step
  first = np.ceil(centres - reach - 0.5).astype(np.int64)
  last = np.floor(centres + reach - 0.5).astype(np.int64)
  first, last = np.clip(first, 0, inputs - 1), np.clip(last, 0, inputs - 1)
  indices = first + np.arange((last - first).max() + 1)[:, None]
  distance = (indices.astype(_F) + 0.5 - centres) * (1 / stretch)
  weights = np.where(indices <= last, kernel(distance), 0)
  return _Taps(np.minimum(indices, inputs - 1), _normalized(weights))


def _area(pixels: np.ndarray, sides: tuple[int, int]) -> Channels:
  """Averages over the area of an output, rows first; resize_area_op.cc."""

  def taps(inputs: int, outputs: int) -> tuple[_Taps, np.float32]:
    step = _F(inputs) / _F(outputs)
    start = np.arange(outputs, dtype=_F) * step
    end = np.arange(1, outputs + 1, dtype=_F) * step
    first = np.floor(start).astype(np.int64)
    last = np.ceil(end).astype(np.int64) - 1
    indices = first + np.arange((last - first).max() + 1)[:, None]
    low, high = indices.astype(_F), (indices + 1).astype(_F)
    covered = np.where(
      low < start,
      np.where(high > end, step, high - start),
      np.where(high > end, end - low, 1),
    )
    weights = np.where(indices <= last, covered, 0)
    return _Taps(np.minimum(indices, inputs - 1), weights), step

  down, height = taps(pixels.shape[0], sides[0])
  along, width = taps(pixels.shape[1], sides[1])
  share = 1 / (height * width)
  return _weigh(_weigh(pixels, along, 1), down, 0) * share


def _normalized(weights: np.ndarray) -> np.ndarray:
  """Weights normalised to a sum of one, summed by tap as in TensorFlow."""
  total = np.zeros_like(weights[0])
  for weight in weights:
    total = total + weight
  is_large = np.abs(total) >= _TINY
  factor = np.where(is_large, 1 / np.where(is_large, total, 1), 1)
  return weights * factor.astype(_F)


def _weigh(pixels: np.ndarray, taps: _Taps, axis: int) -> Channels:
  """Weighted sum of the taps along an axis, in order."""
  total = 0
  for indices, weights in zip(*taps, strict=True):
    weights = weights[:, None, None] if axis == 0 else weights[:, None]
    total = total + np.take(pixels, indices, axis) * weights
  return total
