"""Finds the table cells that a run fills, from its config's `paper_row`."""

import json
import math
from collections.abc import Iterator

from vit_jax import registry
from vit_jax.config import names, schema
from vit_jax.paper import results
from vit_jax.paper.datasets import DATASETS
from vit_jax.paper.table import Row, Table
from vit_jax.report.tables.runs import Found, flatten

# Number of ImageNet validation images that ReaL has labels for.
_NUM_REAL = 46_837
# Settings that a run may change and still count, with a remark.
_LENGTH = ("total_steps", "train.batch_size")
# A part of train is a dev run of a sweep, which is in no table.
_PART = "train.split"
# Keys that make networks of the same size different.
_STRUCTURE = (
  "pool",
  "cls_token",
  "norm_after_pool",
  "pos_embedding",
  "pos_embedding_at",
)


class _MismatchError(Exception):
  """A run declares a cell but does not belong there."""


def fill(
  table: Table, run: Found
) -> tuple[dict[tuple[int, str], float], dict[str, list[str]], list[str]]:
  """Matches a run to the cells that it declares, or explains mismatches.

  Returns:
    Values by (row number, column) in the unit of the column; reasons why the
    run is left out, each with its columns; and remarks on cells that count.
  """
  values, reasons, remarks = {}, {}, []
  for cell in run.config.paper_row.cells:
    number, key, column, metric = _parse(cell)
    if number != str(table.number) or column not in table.columns:
      continue
    try:
      index = _find_row(table, key, column, run)
      if index is None or _PART in _overridden(run.config):
        continue
      _check(table, table.rows[index], column, run)
      scale = 100 if table.columns[column].unit == "%" else 1
      values[index, column] = scale * _value(column, metric, run)
      remarks += _length(run)
    except _MismatchError as mismatch:
      reasons.setdefault(str(mismatch), []).append(column)
  return values, reasons, remarks


def is_by_hyper_rule(run: Found) -> bool:
  """Tells BiT's fine-tuning, with step-wise learning rates, from Table 4's."""
  return run.config.schedule.decay == "steps"


def _parse(cell: str) -> tuple[str, str, str, str]:
  """Splits 'TABLE:ROW:COLUMN=METRIC' into parts; missing ones are ''."""
  number, _, rest = cell.partition(":")
  key, _, rest = rest.partition(":")
  column, _, metric = rest.partition("=")
  return number, key, column, metric


def _find_row(table: Table, key: str, column: str, run: Found) -> int | None:
  """Returns the row number; None if the run's network is not in this table."""
  rows = {i: row for i, row in enumerate(table.rows) if column in row.cells}
  if key:
    return next((i for i, row in rows.items() if row.key == key), None)
  start, size = run.start, _size(run.config.model)
  if start is None:
    raise _MismatchError("starts from no pre-trained network")
  rows = {
    i: row
    for i, row in rows.items()
    if row.model is not None and _size(names.find(row.model)) == size
  }
  if not rows:
    return None
  told = f"starts from {start.path}, "
  if start.problem:
    raise _MismatchError(told + start.problem)
  if start.config is None:
    fitting = [i for i, row in rows.items() if row.data == start.data]
    if len(fitting) > 1:
      raise _MismatchError(
        f"fits {len(fitting)} rows of Table {table.number}, as the epochs and"
        " the optimizer of its pre-training are not known"
      )
    return fitting[0] if fitting else None
  if _size(start.config.model) != size:
    raise _MismatchError(f"{told}a {names.describe(start.config.model)}")
  for name, (value, expected) in _overridden(start.config).items():
    raise _MismatchError(
      f"{told}which has {name} {value!r}, its row {expected!r}"
    )
  declared = {
    key
    for number, key, *_ in map(_parse, start.config.paper_row.cells)
    if number == str(table.number)
  }
  return next((i for i, row in rows.items() if row.key in declared), None)


def _check(table: Table, row: Row, column: str, run: Found) -> None:
  """Raises _MismatchError for a run that is unfinished or was overridden."""
  if run.unfinished:
    raise _MismatchError(run.unfinished)
  model, expected = run.config.model, names.find(row.model)
  if run.start is not None:
    for key in _STRUCTURE:
      ours, theirs = _structure(model, key), _structure(expected, key)
      if ours != theirs:
        raise _MismatchError(f"has {key} {ours!r}, {row.name} {theirs!r}")
  settings = _overridden(run.config)
  if results.has_large_images(table, column):
    side = results.LARGE_IMAGES[row.model]
    if model.image_size != side:
      settings["model.image_size"] = model.image_size, side
  for key, (value, required) in settings.items():
    if key not in _LENGTH:
      raise _MismatchError(
        f"has {key} {value!r}, Table {table.number} {required!r}"
      )


def _overridden(config: schema.Config) -> dict[str, tuple[object, object]]:
  """Returns overridden settings: key -> (value, declared value)."""
  values, found = flatten(config), {}
  for setting in config.paper_row.settings:
    key, _, text = setting.partition("=")
    declared = json.loads(text)
    if values.get(key) != declared:
      found[key] = values.get(key), declared
  return found


def _value(column: str, metric: str, run: Found) -> float:
  """Returns a metric measured on all examples of its split."""
  value = run.metrics.get(metric, math.nan)
  if not math.isfinite(value):
    raise _MismatchError(f"has no {metric}")
  name = metric.rpartition("/")[0]
  count = run.metrics.get(f"{name}/num_examples")
  expected = _NUM_REAL if column == "real" else _num_examples(name, run)
  if None not in (count, expected) and count != expected:
    raise _MismatchError(
      f"has {name} of {count:,.0f} examples, not of all {expected:,}"
    )
  return value


def _num_examples(name: str, run: Found) -> int | None:
  """Returns the size of an evaluator's split, if known."""
  evaluator = run.config.evals.get(name.removeprefix("eval/"))
  known = DATASETS.get(run.config.train.dataset)
  split = getattr(evaluator, "split", None)
  return known.num_examples.get(split) if known else None


def _length(run: Found) -> Iterator[str]:
  changed = _overridden(run.config)
  if changed.keys() & set(_LENGTH):
    steps, images = run.config.total_steps, run.config.train.batch_size
    declared = [changed[key][1] if key in changed else None for key in _LENGTH]
    theirs = [
      f"{value:,}" if value is not None else "as many" for value in declared
    ]
    yield (
      f"{run.name} counts, although it has {steps} steps of {images} images;"
      f" Table 4 has {theirs[0]} of {theirs[1]}."
    )


def _size(model: schema.Model) -> object:
  return model.name, registry.FAMILIES.get(model.name).size(model)


def _structure(model: schema.Model, key: str) -> object:
  value = getattr(model, key, None)
  if key == "cls_token" and value is None:
    return getattr(model, "pool", None) == "cls"
  return value
