"""Fitting a file's Swin to other windows."""

import re

import numpy as np

from vit_jax.models.fitting import Fitting
from vit_jax.models.layers import position_resize

_TABLE = re.compile(r".*/attention/positions")


def fit(fitting: Fitting) -> None:
  """Resizes tables of position biases, as the authors do; see `Family.fit`."""
  resized = set()
  for name, shape in fitting.shapes.items():
    table = np.asarray(fitting.leaves.get(name))
    if not _TABLE.fullmatch(name) or table.ndim != 2:
      continue
    old, new = map(position_resize.square_side, (table.shape[0], shape[0]))
    if not old or not new or old == new:
      continue
    weights = position_resize.matrix(old, new, "bicubic")
    grid = table.reshape(old, old, -1).astype(np.float64)
    grid = np.einsum("ir,jc,rch->ijh", weights, weights, grid, optimize=True)
    fitting.leaves[name] = grid.reshape(new * new, -1).astype(table.dtype)
    resized.add((old, new))
  for old, new in sorted(resized):
    fitting.notes.append(
      f"Position biases of windows of {(old + 1) // 2} x {(old + 1) // 2} are"
      f" resized to {(new + 1) // 2} x {(new + 1) // 2} (bicubic)."
    )
