"""Fitting of a file's ViT to another class token, grid or kind of positions."""

import re

import numpy as np

from vit_jax.models.fitting import Fitting
from vit_jax.models.layers import position_resize
from vit_jax.models.layers.position_resize import square_side
from vit_jax.models.layers.relative_bias_rows import NUM_CLS_ROWS
from vit_jax.models.vit.shapes import (
  CLS_ROW,
  RELATIVE,
  SHARED_BIAS,
  TABLE,
  X_TABLE,
  Y_TABLE,
)

# Tokens before the patches, in their order.
_PREFIX = {"cls": "class", "dist": "distillation"}
_KEY = {
  "cls": "config.model.pool='{0.pool}'",
  "dist": "config.model.distillation='{0.distillation}'",
}
_REGISTERS = "registers"
_DISTILLATION_HEAD = ("head_dist/kernel", "head_dist/bias")
_ENCODER_NORM = (
  "Transformer/encoder_norm/scale",
  "Transformer/encoder_norm/bias",
)
_FC_NORM = ("fc_norm/scale", "fc_norm/bias")
# Tables of biases, in stacked or unstacked layers, or shared by all layers.
_BIASES = re.compile(r"Transformer/(encoderblock(_\d+)?/)?relative_bias/table")


def fit(fitting: Fitting) -> None:
  """Fits all but the head; see `Family.fit`."""
  had = [name for name in _PREFIX if name in fitting.in_file]
  _fit_prefix(fitting, had)
  _fit_registers(fitting)
  _fit_positions(fitting, had)
  _fit_axes(fitting, had)
  _fit_biases(fitting)
  _fit_distillation_head(fitting)
  _fit_last_norm(fitting)


def _fit_prefix(fitting: Fitting, had: list[str]) -> None:
  """Keeps, drops or initialises the class and distillation tokens."""
  for name, title in _PREFIX.items():
    has = name in fitting.shapes
    if name in had and not has:
      fitting.drop([name])
      fitting.notes.append(
        f"The {title} token is dropped; this model has none"
        f" ({_KEY[name].format(fitting.wanted)})."
      )
    elif has and name not in had and name not in fitting.fresh:
      fitting.start([name])
      fitting.notes.append(
        f"A {title} token is initialised, without a position of its own: the"
        " file has none."
      )


def _fit_registers(fitting: Fitting) -> None:
  """Keeps all registers, or drops and initialises all of them."""
  old = np.shape(fitting.leaves.get(_REGISTERS))[1:2]
  new = tuple(fitting.shapes.get(_REGISTERS, ()))[1:2]
  if old and old != new:
    fitting.drop([_REGISTERS])
    fitting.notes.append(
      f"The {old[0]} registers are dropped; this model has"
      f" {new[0] if new else 'none'}"
      f" (config.model.registers={fitting.wanted.registers})."
    )
  if new and old != new:
    fitting.start([_REGISTERS])
    fitting.notes.append(f"{new[0]} registers are initialised.")


def _fit_positions(fitting: Fitting, had: list[str]) -> None:
  """Fits the table of positions to the grid and the prefix tokens."""
  table, shape = fitting.leaves.get(TABLE), fitting.shapes.get(TABLE)
  if table is None or shape is None or np.ndim(table) != 3:
    return
  # A square plus one or two is never a square.
  num_rows = 0 if square_side(table.shape[1]) else len(had)
  num_wanted = 0 if square_side(shape[1]) else len(_prefix(fitting))
  rows, table = np.split(np.asarray(table), [num_rows], axis=1)
  if num_rows and not num_wanted:
    _join_class_token(fitting, rows[:, :1])
  old = square_side(table.shape[1])
  new = square_side(shape[1] - num_wanted)
  if old and new and old != new:
    method = fitting.wanted.pos_embedding_resize
    table = fitting.resize(
      table,
      (old, old),
      (new, new),
      num_prefix=0,
      method=method,
    )
    fitting.notes.append(
      f"The position embedding is resized from {old} x {old} to"
      f" {new} x {new} patches ({method})."
    )
  if num_wanted:
    rows = _prefix_rows(fitting, rows, had[:num_rows])
    table = np.concatenate([rows, table], axis=1)
  fitting.leaves[TABLE] = table


def _prefix(fitting: Fitting) -> list[str]:
  """The network's tokens before the patches."""
  return [name for name in _PREFIX if name in fitting.shapes]


def _prefix_rows(
  fitting: Fitting, rows: np.ndarray, had: list[str]
) -> np.ndarray:
  """The prefix tokens' positions, zeros for a token not in the file."""
  zeros = np.zeros((len(rows), 1, rows.shape[2]), rows.dtype)
  known = {name: rows[:, i : i + 1] for i, name in enumerate(had)}
  wanted = [known.get(name, zeros) for name in _prefix(fitting)]
  return np.concatenate(wanted, axis=1)


def _fit_axes(fitting: Fitting, had: list[str]) -> None:
  """Fits tables of columns, of rows and of offsets between tokens."""
  prefix = len(_prefix(fitting)) - len(had)
  if RELATIVE in fitting.leaves and prefix:
    # Each token adds the longest offset at either end, initially 0.
    keys, more = fitting.leaves[RELATIVE], abs(prefix)
    added = ((0, 0), (more, more), (0, 0), (0, 0))
    keys = np.pad(keys, added) if prefix > 0 else keys[:, more:-more]
    fitting.leaves[RELATIVE] = keys
  rows, shape = fitting.leaves.get(CLS_ROW), fitting.shapes.get(CLS_ROW)
  if rows is not None and shape is None:
    _join_class_token(fitting, rows[:, :1])
    fitting.drop([CLS_ROW])
  elif shape is not None and X_TABLE in fitting.leaves:
    if rows is None:
      rows, had = np.zeros((shape[0], 0, shape[2]), np.float32), []
    fitting.leaves[CLS_ROW] = _prefix_rows(fitting, rows, had)
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


def _fit_biases(fitting: Fitting) -> None:
  """Fits tables of relative biases to the layers and to the grid."""
  names = [name for name in fitting.shapes if _BIASES.fullmatch(name)]
  shared = fitting.leaves.get(SHARED_BIAS)
  if shared is not None and names and SHARED_BIAS not in names:
    # As in BEiT's fine-tuning.
    fitting.drop([SHARED_BIAS])
    for name in names:
      is_stacked = len(fitting.shapes[name]) == 3
      layers = fitting.shapes[name][:1] if is_stacked else ()
      table = np.broadcast_to(shared, (*layers, *np.shape(shared)))
      fitting.leaves[name] = table.copy()
    fitting.dropped.remove(SHARED_BIAS)
    fitting.notes.append(
      "The table of relative biases that all layers shared is copied into each"
      " (config.model.pos_embedding_at='every_layer')."
    )
  resized: set[tuple[int, int]] = set()
  for name in names:
    table = np.asarray(fitting.leaves.get(name))
    if table.ndim != len(fitting.shapes[name]):
      continue
    old, new = (
      _bias_side(shape) for shape in (table.shape, fitting.shapes[name])
    )
    if old and new and old != new:
      fitting.leaves[name] = _resized_biases(
        table, old, new, fitting.wanted.pos_embedding_resize
      )
      resized.add(((old + 1) // 2, (new + 1) // 2))
  for old, new in resized:
    fitting.notes.append(
      f"Relative biases are resized from {old} x {old} to {new} x {new} patches"
      f" ({fitting.wanted.pos_embedding_resize})."
    )


def _bias_side(shape: tuple[int, ...]) -> int | None:
  """Offsets along a side of a table of biases; None if they form no square."""
  return square_side(shape[-2] - NUM_CLS_ROWS)


def _resized_biases(
  table: np.ndarray, old: int, new: int, method: str
) -> np.ndarray:
  """A table of biases, or a stack of them, for another grid."""
  offsets, others = np.split(table, [old * old], axis=-2)
  weights = position_resize.matrix(old, new, method)
  offsets = offsets.reshape(*table.shape[:-2], old, old, table.shape[-1])
  offsets = np.einsum("ky,qx,...yxh->...kqh", weights, weights, offsets)
  offsets = offsets.reshape(*table.shape[:-2], new * new, table.shape[-1])
  return np.concatenate([offsets, others], axis=-2).astype(table.dtype)


def _join_class_token(fitting: Fitting, row: np.ndarray) -> None:
  """Adds the class token's position to the token itself."""
  if "cls" not in fitting.shapes or "cls" not in fitting.leaves:
    return
  if fitting.wanted.pos_embedding_at == "stem":
    fitting.leaves["cls"] = fitting.leaves["cls"] + row
    fitting.notes.append("The class token takes in its position.")
  else:
    fitting.notes.append("The class token's positions are dropped.")


def _fit_distillation_head(fitting: Fitting) -> None:
  """Keeps the distillation token's head, or drops and initialises all of it."""
  kernel, _ = _DISTILLATION_HEAD
  old = np.shape(fitting.leaves.get(kernel))[1:]
  new = tuple(fitting.shapes.get(kernel, ()))[1:]
  if old and old != new:
    fitting.drop(_DISTILLATION_HEAD)
    fitting.notes.append(
      f"The distillation head of {old[0]} classes is dropped."
    )
  if new and kernel not in fitting.leaves:
    fitting.start(_DISTILLATION_HEAD)
    fitting.notes.append(
      f"A new distillation head of {new[0]} classes is initialised."
    )


def _fit_last_norm(fitting: Fitting) -> None:
  """Initialises a norm after pooling instead of the file's norm before it.

  As in the fine-tuning of MAE, BEiT and EVA-02.
  """
  if _FC_NORM[0] not in fitting.shapes or _FC_NORM[0] in fitting.leaves:
    return
  fitting.drop(_ENCODER_NORM)
  fitting.start(_FC_NORM)
  fitting.notes.append(
    "The norm of the tokens is dropped; one of their mean is initialised"
    " (config.model.norm_after_pool=True)."
  )
