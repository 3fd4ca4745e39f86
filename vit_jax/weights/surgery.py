"""Fitting the parameters of one network to another with the same body.

The grid of patches, the head, the class token and the stacking of layers may
differ; anything else is a misfit. Plain NumPy.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.layers import position_resize
from vit_jax.models.vit.shapes import CLS_ROW, RELATIVE, TABLE, X_TABLE, Y_TABLE
from vit_jax.weights import (
  flat,
  position_embeddings,
  shape_mismatches,
  stacking,
)
from vit_jax.weights.contract import Weights
from vit_jax.weights.shape_mismatches import Shape

_STACKED = "Transformer/encoderblock/"
_HEAD = ("head/kernel", "head/bias")
# Parameters of masked patch prediction alone.
_PREDICTION = ("mask_token", "patch_head/kernel", "patch_head/bias")
_PRE_LOGITS = ("pre_logits/kernel", "pre_logits/bias")


@dataclasses.dataclass(frozen=True)
class Fitted:
  """Parameters that a network takes over from a file.

  Attributes:
    params: Nested dict of the file's parameters, in the network's shapes.
    fresh: Paths of the other parameters, which are to be initialised.
    dropped: Paths in the file that the network has no use for.
    notes: A sentence for everything fresh, dropped or resized.
  """

  params: dict[str, Any]
  fresh: tuple[str, ...] = ()
  dropped: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()


def fit(
  weights: Weights,
  wanted: schema.Model,
  shapes: Mapping[str, Shape],
  without: Sequence[str] = (),
) -> Fitted:
  """Fits the parameters of a file to the shapes of a network.

  Position embeddings are resized by `wanted.pos_embedding_resize`. A head with
  another number of classes is not taken over; a pre-training head
  (`pre_logits`) that the network lacks is dropped together with the head on
  top of it, as in section 3.2 of the paper.

  Args:
    weights: Parameters of the file.
    wanted: Section `model` of the network.
    shapes: {path: shape} of all parameters of the network.
    without: Regexes of whole paths that are not taken from the file.

  Raises:
    UserError: Some parameters fit in no such way, with a table; or a regex
      matches no parameter.
  """
  leaves = _layout(weights.params, shapes)
  surgeon = _Surgeon(leaves, shapes, wanted)
  surgeon.leave_out(without, weights.path)
  surgeon.fit_class_token()
  surgeon.fit_positions()
  surgeon.fit_axes()
  surgeon.fit_head()
  surgeon.start_prediction()
  _check(surgeon, weights, wanted)
  return Fitted(
    params=flat.unflatten(surgeon.leaves),
    fresh=tuple(surgeon.fresh),
    dropped=tuple(surgeon.dropped),
    notes=tuple(surgeon.notes),
  )


class _Surgeon:
  """Drops, changes and starts leaves, and keeps a note of each."""

  def __init__(
    self,
    leaves: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    wanted: schema.Model,
  ):
    self.leaves = dict(leaves)
    self.shapes = shapes
    self.fresh: list[str] = []
    self.dropped: list[str] = []
    self.notes: list[str] = []
    self._wanted = wanted
    self._had_cls = "cls" in leaves

  def leave_out(self, patterns: Sequence[str], path: str) -> None:
    """Drops and starts the parameters that regexes match."""
    for pattern in patterns:
      try:
        matches = re.compile(pattern).fullmatch
      except re.error as error:
        raise UserError(
          f"config.init_without = {pattern!r} is no regular expression"
          f" ({error})."
        ) from None
      names = [name for name in self.leaves | self.shapes if matches(name)]
      if not names:
        raise UserError(
          f"config.init_without = {pattern!r} matches no parameter, neither"
          f" of {path} nor of the model; `--dry_run` lists the model's."
        )
      self._drop(names)
      self._start(names)
      self.notes.append(f"{pattern} is not taken over, as asked.")

  def fit_class_token(self) -> None:
    """Keeps, drops or starts the class token."""
    has = "cls" in self.shapes
    if self._had_cls and not has:
      self._drop(["cls"])
      self.notes.append(
        "The class token is dropped; this model has none"
        f" (config.model.pool='{self._wanted.pool}')."
      )
    elif has and not self._had_cls and "cls" not in self.fresh:
      self._start(["cls"])
      self.notes.append(
        "A class token starts at zeros, without a position of its own: the"
        " file has none."
      )

  def fit_positions(self) -> None:
    """Fits the table of positions to the grid and the class token."""
    table, shape = self.leaves.get(TABLE), self.shapes.get(TABLE)
    if table is None or shape is None or np.ndim(table) != 3:
      return
    # A square and one more is never a square.
    square_side = position_embeddings.square_side
    had_row = self._had_cls and not square_side(table.shape[1])
    has_row = "cls" in self.shapes and not square_side(shape[1])
    if had_row and not has_row:
      self._join_class_token(table[:, :1])
      table = table[:, 1:]
    elif has_row and not had_row:
      table = np.pad(table, ((0, 0), (1, 0), (0, 0)))
    old = square_side(table.shape[1] - has_row)
    new = square_side(shape[1] - has_row)
    if old and new and old != new:
      method = self._wanted.pos_embedding_resize
      table = position_embeddings.resize(
        np.asarray(table),
        (old, old),
        (new, new),
        num_prefix=int(has_row),
        method=method,
      )
      self.notes.append(
        f"The position embedding is resized from {old} x {old} to"
        f" {new} x {new} patches ({method})."
      )
    self.leaves[TABLE] = table

  def fit_axes(self) -> None:
    """Fits tables of columns, of rows and of offsets between tokens."""
    prefix = int("cls" in self.shapes) - int(self._had_cls)
    if RELATIVE in self.leaves and prefix:
      # A class token adds the longest offset at either end, which starts at 0.
      keys = self.leaves[RELATIVE]
      added = ((0, 0), (1, 1), (0, 0), (0, 0))
      keys = np.pad(keys, added) if prefix > 0 else keys[:, 1:-1]
      self.leaves[RELATIVE] = keys
    row, shape = self.leaves.get(CLS_ROW), self.shapes.get(CLS_ROW)
    if row is not None and shape is None:
      self._join_class_token(row)
      self._drop([CLS_ROW])
    elif row is None and shape is not None and X_TABLE in self.leaves:
      self.leaves[CLS_ROW] = np.zeros(shape, np.float32)
    method = self._wanted.pos_embedding_resize
    for name in (X_TABLE, Y_TABLE, RELATIVE):
      table, shape = np.asarray(self.leaves.get(name)), self.shapes.get(name)
      if shape is None or table.ndim != len(shape):
        continue
      old, new = table.shape[1], shape[1]
      if old != new:
        weights = position_resize.matrix(old, new, method)
        table = np.moveaxis(np.tensordot(table, weights, (1, 1)), -1, 1)
        self.leaves[name] = table.astype(np.float32)
        self.notes.append(
          f"{name} is resized from {old} to {new} places ({method})."
        )

  def _join_class_token(self, row: np.ndarray) -> None:
    """Adds the class token's position to a token that has none of its own."""
    if "cls" not in self.shapes or "cls" not in self.leaves:
      return
    if self._wanted.pos_embedding_at == "stem":
      self.leaves["cls"] = self.leaves["cls"] + row
      self.notes.append("The class token takes in its position.")
    else:
      self.notes.append("The class token's positions are dropped.")

  def fit_head(self) -> None:
    """Keeps the head, or drops and starts it, whole."""
    hidden = np.shape(self.leaves.get("pre_logits/kernel"))[1:]
    has_hidden = "pre_logits/kernel" in self.shapes
    has_head = "head/kernel" in self.shapes
    old = np.shape(self.leaves.get("head/kernel"))[1:]
    new = tuple(self.shapes.get("head/kernel", ()))[1:]
    if hidden and not has_hidden:
      self._drop([*_PRE_LOGITS, *_HEAD])
      self.notes.append(
        "The pre-training head is dropped, with its pre_logits layer; to keep"
        f" that, set config.model.representation_size={hidden[0]}."
      )
    elif old and old != new:
      self._drop(_HEAD)
      self.notes.append(f"The head of {old[0]} classes is dropped.")
    if has_hidden and not hidden and not old:
      self._start(_PRE_LOGITS)
      self.notes.append("A new pre_logits layer is initialised.")
    if has_head and "head/kernel" not in self.leaves:
      self._start(_HEAD)
      self.notes.append(f"A new head of {new[0]} classes starts at zeros.")

  def start_prediction(self) -> None:
    """Starts the parameters of masked patch prediction, which files lack."""
    new = [name for name in _PREDICTION if name in self.shapes]
    if new:
      self._start(new)
      self.notes.append(
        "A mask token and a head that predicts patches are initialised."
      )

  def _drop(self, names: Sequence[str]) -> None:
    for name in names:
      if self.leaves.pop(name, None) is not None:
        self.dropped.append(name)

  def _start(self, names: Sequence[str]) -> None:
    self.fresh.extend(
      name for name in names if name in self.shapes and name not in self.fresh
    )


def _layout(
  params: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> dict[str, Any]:
  """Flat parameters with layers stacked as in `shapes`."""
  if any(name.startswith(_STACKED) for name in shapes):
    return flat.flatten(stacking.stack_layers(params))
  return flat.flatten(stacking.unstack_layers(params))


def _check(surgeon: _Surgeon, weights: Weights, wanted: schema.Model) -> None:
  rows = shape_mismatches.find(
    {name: np.shape(leaf) for name, leaf in surgeon.leaves.items()},
    {name: tuple(shape) for name, shape in surgeon.shapes.items()},
  )
  rows = [row for row in rows if row.parameter not in surgeon.fresh]
  if rows:
    raise shape_mismatches.ShapeMismatchError(
      f"The parameters of {weights.path} do not fit config.model:",
      shape_mismatches.explain(rows, weights.model, wanted),
    )
