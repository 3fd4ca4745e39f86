"""Tables of evaluators' metrics, according to their declarations.

An evaluator's metrics are named `<prefix>/<row>/<metric>`. Its declaration in
`evaluators.json` has the prefix, a protocol and the display of its metrics, so
that evaluators of any kind can be drawn and explained; a metric without a
declared column is shown as recorded. Entries with the same prefix share a
table.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from vit_jax.config.evaluator_declarations import Column
from vit_jax.report import formatting

_FIELDS = {field.name for field in dataclasses.fields(Column)}


@dataclasses.dataclass(frozen=True)
class Group:
  """The evaluators with one prefix.

  Attributes:
    prefix: First part of their metrics.
    title: Heading of their section.
    protocol: Paragraphs about the measurement.
    columns: Declared metrics by name.
    counts: Label of the x axis if columns have counts.
  """

  prefix: str
  title: str
  protocol: tuple[str, ...]
  columns: Mapping[str, Column]
  counts: str

  def column(self, metric: str) -> Column:
    """Returns a metric's declared column, else one for the recorded value."""
    title = f"{self.title}: {metric}"
    return self.columns.get(metric, Column(metric, metric, panel=title))

  def found(self, metrics: Mapping[str, Any]) -> dict[str, tuple[str, Column]]:
    """Returns metric -> (row, column), without deviations."""
    names = {}
    for name in metrics:
      if not name.startswith(f"{self.prefix}/"):
        continue
      if name.endswith("_std") and name.removesuffix("_std") in metrics:
        continue
      row, _, metric = name.removeprefix(f"{self.prefix}/").rpartition("/")
      names[name] = row or self.prefix, self.column(metric)
    # A row precedes its subrows: 'test' before 'test/age'.
    return dict(sorted(names.items(), key=lambda item: item[1][0]))


@dataclasses.dataclass(frozen=True)
class Cell:
  """A value as recorded, and its standard deviation if it has one."""

  mean: float
  std: float | None
  column: Column

  @property
  def text(self) -> str:
    """Formats it in its column's unit: '85.2 ± 0.9'."""
    if self.column.unit == "number":
      return formatting.quantity(self.mean)
    if not math.isfinite(self.mean):
      return "NaN"
    text = f"{100 * self.mean:.{self.column.decimals}f}"
    if self.std is not None and math.isfinite(self.std):
      text += f" ± {100 * self.std:.{self.column.decimals}f}"
    return text


@dataclasses.dataclass(frozen=True)
class Table:
  """The last metrics of a group.

  Attributes:
    group: The evaluators.
    heads: Column titles, ascending by count.
    rows: Row -> column title -> cell.
    mean: Title -> mean over the rows without a variant, if columns have counts
      and there are several such rows.
    num_averaged: Number of these rows.
  """

  group: Group
  heads: tuple[str, ...]
  rows: Mapping[str, Mapping[str, Cell]]
  mean: Mapping[str, Cell]
  num_averaged: int


def groups(declarations: Mapping[str, Any]) -> list[Group]:
  """Returns groups in the order of the config; skips damaged ones."""
  found: dict[str, Group] = {}
  for entry in declarations.values():
    if not isinstance(entry, dict) or not isinstance(entry.get("prefix"), str):
      continue
    prefix = entry["prefix"]
    group = found.get(prefix)
    found[prefix] = Group(
      prefix,
      str(entry.get("title") or prefix),
      tuple(
        dict.fromkeys(
          (*(group.protocol if group else ()), str(entry.get("protocol") or ""))
        )
      ),
      {**(group.columns if group else {}), **_columns(entry.get("columns"))},
      str(entry.get("counts") or ""),
    )
  return list(found.values())


def _columns(declared: Any) -> dict[str, Column]:
  columns = {}
  for one in declared if isinstance(declared, list) else ():
    if isinstance(one, dict) and {"metric", "title"} <= one.keys():
      known = {name: value for name, value in one.items() if name in _FIELDS}
      columns[one["metric"]] = Column(**known)
  return columns


def table(group: Group, metrics: Mapping[str, Any]) -> Table | None:
  """Builds a group's table from the metrics; None if there are none."""
  rows: dict[str, dict[str, Cell]] = {}
  columns: dict[str, Column] = {}
  plain = []
  for name, (row, column) in group.found(metrics).items():
    columns.setdefault(column.title, column)
    if column.variant:
      row = f"{row} ({column.variant})"
    elif row not in plain:
      plain.append(row)
    cell = Cell(metrics[name], metrics.get(f"{name}_std"), column)
    rows.setdefault(row, {})[column.title] = cell
  if not rows:
    return None
  declared = [column.title for column in group.columns.values()]
  heads = sorted(
    columns,
    key=lambda title: (
      columns[title].count or 0,
      declared.index(title) if title in declared else len(declared),
    ),
  )
  mean = {}
  for title, column in columns.items():
    values = [rows[row][title].mean for row in plain if title in rows[row]]
    if column.count is not None and len(values) == len(plain) > 1:
      mean[title] = Cell(sum(values) / len(values), None, column)
  return Table(group, tuple(heads), rows, mean, len(plain))


def headline(found: Table) -> tuple[Column, Cell, str] | None:
  """Returns the headline column, cell and row; prefers a count of ten.

  Without counts, it is the first column that has a panel; None if there is
  none.
  """
  cells = {
    cell.column.count: (cell.column, cell, row)
    for row, one in reversed(found.rows.items())
    for cell in one.values()
    if cell.column.count is not None
  }
  if not cells:
    drawn = (title for title in found.heads if _panel(found, title))
    title = next(drawn, None)
    if title is None:
      return None
    row, one = next((r, c) for r, c in found.rows.items() if title in c)
    return one[title].column, one[title], row
  column, cell, row = cells[10 if 10 in cells else max(cells)]
  if column.title in found.mean:
    return (
      column,
      found.mean[column.title],
      f"mean of {found.num_averaged} datasets",
    )
  return column, cell, row


def _panel(found: Table, title: str) -> str:
  return next(
    one[title].column.panel for one in found.rows.values() if title in one
  )
