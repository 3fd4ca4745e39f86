"""Learned position embeddings on another grid of patches."""

import math

import numpy as np
from jaxtyping import Float


def square_side(num_patches: int) -> int | None:
  """Side of the square that so many patches make up; None if they do not."""
  side = math.isqrt(max(num_patches, 0))
  return side if side > 0 and side * side == num_patches else None


def with_class_row(table: np.ndarray) -> np.ndarray:
  """Adds a row of zeros for the class token to a table that lacks one.

  The number of rows tells: A square and one more is never a square. A table
  without that row is added before the class token is joined, so the token has
  no position. An array of another rank than [tables, n, d] stays as it is.
  """
  if table.ndim != 3 or not square_side(table.shape[1]):
    return table
  return np.pad(table, ((0, 0), (1, 0), (0, 0)))


def resize(
  table: Float[np.ndarray, "tables n d"],
  old_grid: tuple[int, int],
  new_grid: tuple[int, int],
  *,
  num_prefix: int,
  method: str,
) -> Float[np.ndarray, "tables m d"]:
  """Resizes tables to another grid; rows of prefix tokens stay as they are.

  Args:
    table: Rows of prefix tokens, then of patches row by row.
    old_grid: Rows and columns of patches in `table`.
    new_grid: Rows and columns of patches in the result.
    num_prefix: Number of tokens that are not patches, such as the class token.
    method: 'bilinear' aligns corners like `scipy.ndimage.zoom(order=1)`, as
      [VT] and [BV] do; 'bicubic' is `torch.nn.functional.interpolate` without
      aligned corners, as in Hugging Face, DeiT, MAE and DINO;
      'bicubic_antialias' is the same with `antialias=True`, as in timm.
  """
  prefix, patches = table[:, :num_prefix], table[:, num_prefix:]
  if tuple(old_grid) == tuple(new_grid):
    return table
  grid = patches.reshape(len(table), *old_grid, -1).astype(np.float64)
  if method == "bilinear":
    # Imported here, as it is seldom needed. For a few sizes (8 to 26, say)
    # rounding puts the last place outside of the grid: there the border counts.
    from scipy import ndimage

    zoom = (1, *np.divide(new_grid, old_grid), 1)
    grid = ndimage.zoom(grid, zoom, order=1, mode="nearest")
  else:
    weights = _BICUBIC[method]
    rows, columns = (
      weights(*sizes) for sizes in zip(old_grid, new_grid, strict=True)
    )
    grid = np.einsum("ir,jc,trcd->tijd", rows, columns, grid, optimize=True)
  resized = grid.reshape(len(table), -1, table.shape[-1]).astype(table.dtype)
  return np.concatenate([prefix, resized], axis=1)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
  """Keys's kernel; PyTorch has a = -0.75, or -0.5 where it antialiases."""
  x = np.abs(x)
  near = ((a + 2) * x - (a + 3)) * x * x + 1
  far = (((x - 5) * x + 8) * x - 4) * a
  return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _bicubic(old: int, new: int) -> Float[np.ndarray, "new old"]:
  """Weights of four old places; places beyond the border take its value."""
  places = (np.arange(new) + 0.5) * (old / new) - 0.5
  low = np.floor(places)
  weights = np.zeros((new, old))
  for offset in (-1, 0, 1, 2):
    index = np.clip(low + offset, 0, old - 1).astype(int)
    share = _cubic(places - low - offset, -0.75)
    np.add.at(weights, (np.arange(new), index), share)
  return weights


def _bicubic_antialias(old: int, new: int) -> Float[np.ndarray, "new old"]:
  """Weights of a kernel widened for shrinking, cut at the border."""
  scale = old / new
  stretch = max(scale, 1.0)
  centres = scale * (np.arange(new)[:, None] + 0.5)
  places = np.arange(old)[None]
  support = 2 * stretch
  # Truncated as C does, which is not floor below zero.
  first = np.maximum(np.trunc(centres - support + 0.5), 0)
  last = np.minimum(np.trunc(centres + support + 0.5), old)
  weights = _cubic((places - centres + 0.5) / stretch, -0.5)
  weights = np.where((places >= first) & (places < last), weights, 0.0)
  return weights / weights.sum(axis=1, keepdims=True)


_BICUBIC = {"bicubic": _bicubic, "bicubic_antialias": _bicubic_antialias}
