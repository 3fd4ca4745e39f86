"""The labels of a Hugging Face dataset, read once, one column at a time."""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vit_jax.data import sources
from vit_jax.data.huggingface.arrow_tables import Table, is_list
from vit_jax.data.huggingface.dataset_columns import Columns
from vit_jax.errors import UserError

_DEFAULT = "label"  # Default of `label_key`.
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Labels:
  """The labels of all splits.

  Attributes:
    feature: Description of the labels.
    values: By split, int32 [n] or [n, max_labels], or float64 [n, 1].
    may_lack: True if a split may have been published without labels.
  """

  feature: sources.Label | sources.Numbers
  values: Mapping[str, np.ndarray]
  may_lack: bool

  def problems(self, values: np.ndarray) -> dict[int, str]:
    """Reasons why labels cannot be used, by place."""
    if isinstance(self.feature, sources.Numbers):
      wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
      return dict.fromkeys(wrong.tolist(), "no finite number")
    classes = self.feature.num_classes
    if values.ndim > 1:
      wrong = ((values < -1) | (values >= classes)).any(axis=1)
    else:
      wrong = (values < 0) | (values >= classes)
    return {
      int(i): "no label" if np.all(values[i] == -1) else f"label {values[i]}"
      for i in np.flatnonzero(wrong)
    }


def read(
  tables: Mapping[str, Table], columns: Columns, *, dataset: str
) -> Labels | None:
  """Reads the labels of all splits; None if there is no such column.

  Undeclared classes are collected from all splits: integers up to the largest,
  or names in sorted order. Floats are accepted if all are integers; otherwise,
  unless the column was named explicitly, it is not a column of labels.

  Raises:
    UserError: There are fewer than two classes, or an explicitly named column
      has numbers that are not integers.
  """
  if columns.label is None:
    return None
  found = {
    split: _plain(t.column(columns.label)) for split, t in tables.items()
  }
  if columns.kind == "numbers":
    values = {split: _numbers(column) for split, column in found.items()}
    return Labels(sources.Numbers((columns.label,)), values, may_lack=False)
  fraction = next(filter(None, map(_fraction, found.values())), None)
  if fraction:
    kind = f"{columns.label!r} holds {fraction}, no numbers of classes"
    if columns.label != _DEFAULT:
      raise UserError(
        f"label_key = {kind}; name another column of {dataset}, or predict the"
        " numbers with config.objective.loss = 'mse'."
      )
    _logger.warning("%s has no labels: %s.", dataset, kind)
    return None
  names = columns.class_names
  flat = {split: _flat(column) for split, column in found.items()}
  if columns.kind == "names":
    used = {name for column in flat.values() for name in _unique(column)}
    names = tuple(sorted(used))
    flat = {s: _indices(column, names) for s, column in flat.items()}
  numbers = {split: _integers(column) for split, column in flat.items()}
  num_classes = columns.num_classes
  if columns.kind == "names":
    num_classes = len(names)
  elif num_classes is None:
    num_classes = 1 + max(int(n.max(initial=-1)) for n in numbers.values())
  if num_classes < 2:
    raise UserError(
      f"{dataset} has {'one class' if num_classes else 'no class'} in"
      f" {columns.label!r}; a classifier needs two or more. label_key names"
      " another column."
    )
  width = 1
  if columns.is_list:
    lengths = {s: _lengths(column) for s, column in found.items()}
    width = max(2, *(int(n.max(initial=0)) for n in lengths.values()))
    numbers = {s: _padded(numbers[s], lengths[s], width) for s in numbers}
  return Labels(
    sources.Label(num_classes, names, width), numbers, may_lack=True
  )


def _fraction(column: pa.ChunkedArray) -> str | None:
  """The type of a column of floats and a value that is no integer, if any."""
  if not pa.types.is_floating(column.type):
    return None
  values = column.to_numpy()  # Nulls become NaN, as in pandas.
  values = values[~np.isnan(values)]
  wrong = values[(np.floor(values) != values) | np.isinf(values)]
  return f"{values.dtype.name} such as {wrong[0]:.4g}" if wrong.size else None


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
  """A column of values, decoded from a dictionary for pandas' categories."""
  kind = column.type
  return (
    column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
  )


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
  kind = column.type
  while is_list(kind):
    column = pc.list_flatten(column)
    kind = column.type
  return column


def _unique(column: pa.ChunkedArray) -> list[str]:
  return [name for name in pc.unique(column).to_pylist() if name is not None]


def _indices(
  column: pa.ChunkedArray, names: tuple[str, ...]
) -> pa.ChunkedArray:
  return pc.index_in(column, value_set=pa.array(names, column.type))


def _integers(column: pa.ChunkedArray) -> np.ndarray:
  """int32 [n]; -1 for missing values, the nearest int32 if out of range."""
  if pa.types.is_floating(column.type):
    values = np.nan_to_num(column.to_numpy().astype(np.float64), nan=-1)
  else:
    values = pc.fill_null(column.cast(pa.int64()), -1).to_numpy()
  limits = np.iinfo(np.int32)
  return np.clip(values, limits.min, limits.max).astype(np.int32)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
  """float64 [n, 1]; NaN for missing values."""
  values = pc.fill_null(column.cast(pa.float64(), safe=False), float("nan"))
  return values.to_numpy().reshape(-1, 1)


def _lengths(column: pa.ChunkedArray) -> np.ndarray:
  lengths: Any = pc.fill_null(pc.list_value_length(column), 0)
  return lengths.to_numpy().astype(np.int64)


def _padded(flat: np.ndarray, lengths: np.ndarray, width: int) -> np.ndarray:
  """Rows of `width` from concatenated lists, padded with -1."""
  rows = np.full((len(lengths), width), -1, np.int32)
  row = np.repeat(np.arange(len(lengths)), lengths)
  starts = np.cumsum(lengths) - lengths
  place = np.arange(len(flat)) - np.repeat(starts, lengths)
  rows[row, place] = flat
  return rows
