"""Fitting of a file's Swin to other windows."""

import re

import numpy as np

from vit_jax.models.fitting import Fitting
from vit_jax.models.layers.position_resize import square_side

_TABLE = re.compile(r".*/attention/positions")


def fit(fitting: Fitting) -> None:
  """Resizes tables of position biases; see `Family.fit`.

  The method is `model.pos_embedding_resize`, except for its default, bilinear:
  no Swin release resizes this way, so bicubic is used, as by the authors.
  """
  method = fitting.wanted.pos_embedding_resize
  if method == "bilinear":
    method = "bicubic"
  resized = set()
  for name, shape in fitting.shapes.items():
    table = np.asarray(fitting.leaves.get(name))
    if not _TABLE.fullmatch(name) or table.ndim != 2:
      continue
    old, new = map(square_side, (table.shape[0], shape[0]))
    if not old or not new or old == new:
      continue
    grids = ((old, old), (new, new))
    (fitting.leaves[name],) = fitting.resize(
      table[None], *grids, num_prefix=0, method=method
    )
    resized.add((old, new))
  for old, new in sorted(resized):
    fitting.notes.append(
      f"Position biases of windows of {(old + 1) // 2} x {(old + 1) // 2} are"
      f" resized to {(new + 1) // 2} x {(new + 1) // 2} ({method})."
    )
