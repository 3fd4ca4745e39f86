"""Weights that resize learned positions to another grid of patches.

NumPy only: the same weights resize the table of a file and, inside a compiled
step, the table of a model that receives images of another size.
"""

import math

import numpy as np
from jaxtyping import Float

# interpolate_offset of dinov2/models/vision_transformer.py; 0.1 in DINO's too.
_OFFSET = 0.1


def square_side(num_patches: int) -> int | None:
  """Side of the square that `num_patches` form; None if they form none."""
  side = math.isqrt(max(num_patches, 0))
  return side if side > 0 and side * side == num_patches else None


def matrix(old: int, new: int, method: str) -> Float[np.ndarray, "new old"]:
  """Weights of the old places along one axis for each new place.

  Args:
    old: Places along the axis of the table.
    new: Places wanted.
    method: A value of `config.model.pos_embedding_resize`. 'bilinear': aligned
      corners, `scipy.ndimage.zoom(order=1)`, as in [VT] and [BV]; 'bicubic':
      `torch.nn.functional.interpolate` without aligned corners, as in Hugging
      Face, DeiT and MAE; 'bicubic_antialias': the same with `antialias=True`,
      as in timm and in DINOv2 with registers; 'bicubic_offset': without it, by
      `scale_factor=(new + 0.1) / old`, as in DINO and DINOv2, which is not the
      identity if `new` is `old`; 'bilinear_half_pixel': torch's 'bilinear'
      without aligned corners, as Hugging Face resizes BEiT's biases;
      'geometric': linear between offsets whose steps grow geometrically from
      the middle to reach as far as the new ones, as in timm, for odd numbers of
      places.
  """
  if method == "bicubic":
    return _bicubic(old, new, old / new)
  if method == "bicubic_offset":
    return _bicubic(old, new, old / (new + _OFFSET))
  if method == "bicubic_antialias":
    return _bicubic_antialias(old, new)
  if method == "geometric":
    return _geometric(old, new)
  if method == "bilinear_half_pixel":
    places = (np.arange(new) + 0.5) * (old / new) - 0.5
    return _linear(np.clip(places, 0, old - 1), old)
  step = (old - 1) / (new - 1) if new > 1 else 0.0
  return _linear(np.minimum(np.arange(new) * step, old - 1), old)


def _linear(
  places: Float[np.ndarray, " new"], old: int
) -> Float[np.ndarray, "new old"]:
  """Weights of the two old places around each given place."""
  new = len(places)
  weights = np.zeros((new, old))
  low = np.floor(places).astype(int)
  rows = np.arange(new)
  np.add.at(weights, (rows, low), 1 - (places - low))
  np.add.at(weights, (rows, np.minimum(low + 1, old - 1)), places - low)
  return weights


def _geometric(old: int, new: int) -> Float[np.ndarray, "new old"]:
  """Weights of the two old offsets around each new one, 0 in the middle."""
  reach, low, high = new // 2, 1.01, 1.5
  factor = high
  while high - low > 1e-6:  # Precision of BEiT's run_class_finetuning.py.
    factor = (low + high) / 2
    if (1 - factor ** (old // 2)) / (1 - factor) > reach:
      high = factor
    else:
      low = factor
  steps = np.cumsum(factor ** np.arange(old // 2, dtype=np.float64))
  offsets = np.concatenate([-steps[::-1], [0.0], steps])
  wanted = np.arange(-reach, reach + 1)
  return _linear(np.interp(wanted, offsets, np.arange(old)), old)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
  """Keys's kernel; a is -0.75 in PyTorch, or -0.5 with antialiasing."""
  x = np.abs(x)
  near = ((a + 2) * x - (a + 3)) * x * x + 1
  far = (((x - 5) * x + 8) * x - 4) * a
  return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _bicubic(old: int, new: int, scale: float) -> Float[np.ndarray, "new old"]:
  """Weights of four old places; places beyond the border repeat the border.

  Args:
    old: Places along the axis.
    new: Places wanted.
    scale: Distance between new places, in old places.
  """
  places = (np.arange(new) + 0.5) * scale - 0.5
  low = np.floor(places)
  weights = np.zeros((new, old))
  for offset in (-1, 0, 1, 2):
    index = np.clip(low + offset, 0, old - 1).astype(int)
    share = _cubic(places - low - offset, -0.75)
    np.add.at(weights, (np.arange(new), index), share)
  return weights


def _bicubic_antialias(old: int, new: int) -> Float[np.ndarray, "new old"]:
  """Weights of the kernel, widened for shrinking; none beyond the border."""
  scale = old / new
  stretch = max(scale, 1.0)
  centres = scale * (np.arange(new)[:, None] + 0.5)
  places = np.arange(old)[None]
  support = 2 * stretch
  # Truncated as in C, which differs from floor below zero.
  first = np.maximum(np.trunc(centres - support + 0.5), 0)
  last = np.minimum(np.trunc(centres + support + 0.5), old)
  weights = _cubic((places - centres + 0.5) / stretch, -0.5)
  weights = np.where((places >= first) & (places < last), weights, 0.0)
  return weights / weights.sum(axis=1, keepdims=True)
