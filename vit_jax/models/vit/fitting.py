"""Fitting a file's ViT to another class token, grid or kind of positions."""

import numpy as np

from vit_jax.models.fitting import Fitting
from vit_jax.models.layers import position_resize
from vit_jax.models.layers.position_resize import square_side
from vit_jax.models.vit.shapes import CLS_ROW, RELATIVE, TABLE, X_TABLE, Y_TABLE

# Parameters of masked patch prediction alone.
_PREDICTION = ("mask_token", "patch_head/kernel", "patch_head/bias")


def fit(fitting: Fitting) -> None:
  """Fits all but the head; see `Family.fit`."""
  had_cls = "cls" in fitting.in_file
  _fit_class_token(fitting, had_cls)
  _fit_positions(fitting, had_cls)
  _fit_axes(fitting, had_cls)
  _start_prediction(fitting)


def _fit_class_token(fitting: Fitting, had_cls: bool) -> None:
  """Keeps, drops or starts the class token."""
  has = "cls" in fitting.shapes
  if had_cls and not has:
    fitting.drop(["cls"])
    fitting.notes.append(
      "The class token is dropped; this model has none"
      f" (config.model.pool='{fitting.wanted.pool}')."
    )
  elif has and not had_cls and "cls" not in fitting.fresh:
    fitting.start(["cls"])
    fitting.notes.append(
      "A class token starts at zeros, without a position of its own: the"
      " file has none."
    )


def _fit_positions(fitting: Fitting, had_cls: bool) -> None:
  """Fits the table of positions to the grid and the class token."""
  table, shape = fitting.leaves.get(TABLE), fitting.shapes.get(TABLE)
  if table is None or shape is None or np.ndim(table) != 3:
    return
  # A square and one more is never a square.
  had_row = had_cls and not square_side(table.shape[1])
  has_row = "cls" in fitting.shapes and not square_side(shape[1])
  if had_row and not has_row:
    _join_class_token(fitting, table[:, :1])
    table = table[:, 1:]
  elif has_row and not had_row:
    table = np.pad(table, ((0, 0), (1, 0), (0, 0)))
  old = square_side(table.shape[1] - has_row)
  new = square_side(shape[1] - has_row)
  if old and new and old != new:
    method = fitting.wanted.pos_embedding_resize
    table = fitting.resize(
      np.asarray(table),
      (old, old),
      (new, new),
      num_prefix=int(has_row),
      method=method,
    )
    fitting.notes.append(
      f"The position embedding is resized from {old} x {old} to"
      f" {new} x {new} patches ({method})."
    )
  fitting.leaves[TABLE] = table


def _fit_axes(fitting: Fitting, had_cls: bool) -> None:
  """Fits tables of columns, of rows and of offsets between tokens."""
  prefix = int("cls" in fitting.shapes) - int(had_cls)
  if RELATIVE in fitting.leaves and prefix:
    # A class token adds the longest offset at either end, which starts at 0.
    keys = fitting.leaves[RELATIVE]
    added = ((0, 0), (1, 1), (0, 0), (0, 0))
    keys = np.pad(keys, added) if prefix > 0 else keys[:, 1:-1]
    fitting.leaves[RELATIVE] = keys
  row, shape = fitting.leaves.get(CLS_ROW), fitting.shapes.get(CLS_ROW)
  if row is not None and shape is None:
    _join_class_token(fitting, row)
    fitting.drop([CLS_ROW])
  elif row is None and shape is not None and X_TABLE in fitting.leaves:
    fitting.leaves[CLS_ROW] = np.zeros(shape, np.float32)
  method = fitting.wanted.pos_embedding_resize
  for name in (X_TABLE, Y_TABLE, RELATIVE):
    table, shape = (
      np.asarray(fitting.leaves.get(name)),
      fitting.shapes.get(name),
    )
    if shape is None or table.ndim != len(shape):
      continue
    old, new = table.shape[1], shape[1]
    if old != new:
      weights = position_resize.matrix(old, new, method)
      table = np.moveaxis(np.tensordot(table, weights, (1, 1)), -1, 1)
      fitting.leaves[name] = table.astype(np.float32)
      fitting.notes.append(
        f"{name} is resized from {old} to {new} places ({method})."
      )


def _join_class_token(fitting: Fitting, row: np.ndarray) -> None:
  """Adds the class token's position to a token that has none of its own."""
  if "cls" not in fitting.shapes or "cls" not in fitting.leaves:
    return
  if fitting.wanted.pos_embedding_at == "stem":
    fitting.leaves["cls"] = fitting.leaves["cls"] + row
    fitting.notes.append("The class token takes in its position.")
  else:
    fitting.notes.append("The class token's positions are dropped.")


def _start_prediction(fitting: Fitting) -> None:
  """Starts the parameters of masked patch prediction, which files lack."""
  new = [name for name in _PREDICTION if name in fitting.shapes]
  if new:
    fitting.start(new)
    fitting.notes.append(
      "A mask token and a head that predicts patches are initialised."
    )
