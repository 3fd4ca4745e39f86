"""Checkpoints side by side, with the results of each evaluator."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vit_jax import text_tables
from vit_jax.report import formatting, measures
from vit_jax.report.figures import fewshot, svg
from vit_jax.report.subjects import Subject, short_names


@dataclasses.dataclass(frozen=True)
class Line:
  """A row of a table; `best` marks the best of several cells."""

  name: str
  cells: tuple[str, ...]
  best: tuple[bool, ...]
  is_mean: bool = False


@dataclasses.dataclass(frozen=True)
class Section:
  """Results of one type of evaluator: rows by checkpoints.

  `protocol` holds paragraphs about the measurement.
  """

  title: str
  protocol: tuple[str, ...]
  lines: tuple[Line, ...]
  figures: tuple[svg.Figure, ...] = ()


@dataclasses.dataclass(frozen=True)
class Comparison:
  """All results of a comparison; `names` are its column headings."""

  subjects: tuple[Subject, ...]
  names: tuple[str, ...]
  sections: tuple[Section, ...]


def compare(
  subjects: Sequence[Subject], declarations: Mapping[str, Mapping[str, Any]]
) -> Comparison:
  """Lays out the results of checkpoints side by side.

  Args:
    subjects: Checkpoints, at least one.
    declarations: Declarations of the evaluators that measured them.
  """
  names = tuple(short_names([one.path for one in subjects]))
  sections = [
    _section(group, subjects, names) for group in measures.groups(declarations)
  ]
  return Comparison(tuple(subjects), names, tuple(sections))


def text(subjects: Sequence[Subject]) -> str:
  """Formats metrics by checkpoint, for a terminal."""
  names = short_names([one.path for one in subjects])
  # The step comes first, even if the first checkpoint has none.
  ordered = sorted(subjects, key=lambda one: "step" not in one.metrics)
  metrics = dict.fromkeys(m for one in ordered for m in one.metrics)
  rows = [("", *names)]
  for metric in metrics:
    values = (one.metrics.get(metric) for one in subjects)
    cells = (
      formatting.MISSING if v is None else formatting.metric(v) for v in values
    )
    rows.append((metric, *cells))
  lines = text_tables.aligned(rows, right=range(1, len(rows[0])))
  return "\n".join(lines) + "\n"


def _section(
  group: measures.Group, subjects: Sequence[Subject], names: Sequence[str]
) -> Section:
  tables = [measures.table(group, one.metrics) for one in subjects]
  found = [one for one in tables if one is not None]
  all_heads = measures.table(
    group, {name: 0.0 for one in subjects for name in one.metrics}
  )
  heads = all_heads.heads if all_heads else ()
  # Row -> cells of each checkpoint by column title.
  rows = {
    row: [one.rows.get(row, {}) if one else {} for one in tables]
    for row in (all_heads.rows if all_heads else ())
  }
  mean = ""
  if any(one.mean for one in found):
    mean = f"mean of {max(one.num_averaged for one in found)} datasets"
    rows = {mean: [one.mean if one else {} for one in tables], **rows}
  lines = [
    _line(f"{row}, {head}", [one.get(head) for one in cells], row == mean)
    for row, cells in rows.items()
    for head in heads
    if any(head in one for one in cells)
  ]
  figures = []
  for row, cells in rows.items():
    title = f"{row[:1].upper()}{row[1:]}: {group.title.removesuffix(', %')}"
    columns = dict(zip(names, cells, strict=True))
    drawn = fewshot.draw(columns, title=title, counts=group.counts)
    if drawn is not None:
      figures.append(svg.Figure(drawn, title))
  return Section(group.title, group.protocol, tuple(lines), tuple(figures))


def _line(
  name: str, cells: Sequence[measures.Cell | None], is_mean: bool
) -> Line:
  texts = tuple(cell.text if cell else formatting.MISSING for cell in cells)
  better = next(cell.column.better for cell in cells if cell)
  values = [cell.mean if cell else None for cell in cells]
  shown = [text.partition(" ±")[0] for text in texts]
  best = {"higher": max, "lower": min}.get(better)
  return Line(name, texts, _best(values, shown, best), is_mean)


def _best(
  values: Sequence[float | None],
  shown: Sequence[str],
  best: Callable[..., float] | None,
) -> tuple[bool, ...]:
  """Marks cells shown equal to the best; none if all are shown equal."""
  finite = [v for v in values if v is not None and math.isfinite(v)]
  if best is None or len(finite) < 2:
    return (False,) * len(values)
  winner = shown[list(values).index(best(finite))]
  marks = tuple(text == winner for text in shown)
  return marks if not all(marks) else (False,) * len(marks)
