"""Checkpoints side by side: what each evaluator of a config found of them."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vit_jax.report import fewshot, formatting, protocols
from vit_jax.report.figures import fewshot as figures
from vit_jax.report.figures import svg
from vit_jax.report.subjects import Subject, short_names


@dataclasses.dataclass(frozen=True)
class Line:
  """A row of a table; `best` marks the cells that are the best of several."""

  name: str
  cells: tuple[str, ...]
  best: tuple[bool, ...]
  is_mean: bool = False


@dataclasses.dataclass(frozen=True)
class Figure:
  svg: svg.Markup
  caption: str


@dataclasses.dataclass(frozen=True)
class Section:
  """What evaluators of one type found: rows by checkpoints.

  Attributes:
    title: its heading.
    protocol: paragraphs on how it was measured.
    lines: rows, each with a cell for every checkpoint.
    figures: drawn of them.
  """

  title: str
  protocol: tuple[str, ...]
  lines: tuple[Line, ...]
  figures: tuple[Figure, ...] = ()


@dataclasses.dataclass(frozen=True)
class Comparison:
  """All that a comparison says, in words; `names` head its columns."""

  subjects: tuple[Subject, ...]
  names: tuple[str, ...]
  sections: tuple[Section, ...]


def compare(
  subjects: Sequence[Subject], evals: Mapping[str, Mapping[str, Any]]
) -> Comparison:
  """Lays out what was measured.

  Args:
    subjects: at least one.
    evals: `config.evals` that measured them, as JSON has it.
  """
  names = tuple(short_names([one.path for one in subjects]))
  sections = []
  for kind, make in _SECTIONS.items():
    entries = {k: e for k, e in evals.items() if e["type"] == kind}
    if entries:
      sections.append(make(subjects, names, entries))
  return Comparison(tuple(subjects), names, tuple(sections))


def text(subjects: Sequence[Subject]) -> str:
  """Metrics by checkpoints, for a terminal."""
  names = short_names([one.path for one in subjects])
  # The step leads, whoever has one.
  ordered = sorted(subjects, key=lambda one: "step" not in one.metrics)
  metrics = dict.fromkeys(m for one in ordered for m in one.metrics)
  rows = [("", *names)]
  for metric in metrics:
    values = (one.metrics.get(metric) for one in subjects)
    cells = (formatting.MISSING if v is None else f"{v:.6g}" for v in values)
    rows.append((metric, *cells))
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = []
  for first, *cells in rows:
    padded = [c.rjust(w) for c, w in zip(cells, widths[1:], strict=True)]
    lines.append("  ".join([first.ljust(widths[0]), *padded]).rstrip())
  return "\n".join(lines) + "\n"


def _classification(
  subjects: Sequence[Subject],
  names: Sequence[str],
  entries: Mapping[str, protocols.Entry],
) -> Section:
  lines, paragraphs = [], []
  for name, entry in entries.items():
    for metric, title, write, best in (
      ("top1", "top-1, %", _percent, max),
      ("top5", "top-5, %", _percent, max),
      ("loss", "loss", formatting.quantity, min),
    ):
      values = _values(subjects, f"eval/{name}/{metric}")
      lines.append(_line(f"{name}, {title}", values, write, best))
    counts = set(_values(subjects, f"eval/{name}/num_examples"))
    paragraph = f"{name}: {' '.join(protocols.classification(entry))}"
    if len(counts) == 1:
      paragraph += f" {formatting.count(counts.pop())} images."
    paragraphs.append(paragraph)
  return Section("Classification", tuple(paragraphs), tuple(lines))


def _fewshot(
  subjects: Sequence[Subject],
  names: Sequence[str],
  entries: Mapping[str, protocols.Entry],
) -> Section:
  tables = [fewshot.of_metrics(one.metrics, None) for one in subjects]
  found = [one for one in tables if one is not None]
  rows = dict.fromkeys(row.name for one in found for row in one.rows)
  shots = sorted({shot for one in found for shot in one.shots})
  curves = {row: [_cells_of(one, row) for one in tables] for row in rows}
  means = [
    {k: fewshot.Cell(v, None) for k, v in one.mean.items()} if one else {}
    for one in tables
  ]
  title = ""
  if any(means):
    title = f"mean of {max(one.num_datasets for one in found)} datasets"
    curves = {title: means, **curves}
  lines = [
    _line_of_cells(
      f"{row}, {shot}-shot",
      [cells.get(shot) for cells in columns],
      is_mean=row == title,
    )
    for row, columns in curves.items()
    for shot in shots
  ]
  drawn = [
    _figure(f"{row}, few-shot accuracy", names, columns, "examples per class")
    for row, columns in curves.items()
  ]
  with_draws = functools.partial(protocols.fewshot, with_draws=True)
  return Section(
    "Few-shot linear accuracy, %",
    _paragraphs(with_draws, entries),
    tuple(line for line in lines if line is not None),
    tuple(figure for figure in drawn if figure is not None),
  )


def _knn(
  subjects: Sequence[Subject],
  names: Sequence[str],
  entries: Mapping[str, protocols.Entry],
) -> Section:
  lines, drawn = [], []
  for entry in entries.values():
    for dataset in entry["datasets"]:
      curves: list[dict[int, fewshot.Cell]] = [{} for _ in subjects]
      for count in sorted(entry["neighbors"]):
        values = _values(subjects, f"knn/{dataset}/k{count}")
        lines.append(_line(f"{dataset}, k = {count}", values, _percent, max))
        for curve, value in zip(curves, values, strict=True):
          if value is not None:
            curve[count] = fewshot.Cell(value, None)
      drawn.append(
        _figure(f"{dataset}, k-NN accuracy", names, curves, "neighbours")
      )
  return Section(
    "k-nearest-neighbour accuracy, %",
    _paragraphs(protocols.knn, entries),
    tuple(lines),
    tuple(figure for figure in drawn if figure is not None),
  )


def _linear_probe(
  subjects: Sequence[Subject],
  names: Sequence[str],
  entries: Mapping[str, protocols.Entry],
) -> Section:
  lines = []
  for entry in entries.values():
    for dataset in entry["datasets"]:
      prefix = f"linear_probe/{dataset}"
      top1 = _values(subjects, f"{prefix}/top1")
      lines.append(_line(f"{dataset}, top-1, %", top1, _percent, max))
      l2 = _values(subjects, f"{prefix}/l2")
      lines.append(_line(f"{dataset}, l2", l2, formatting.quantity, None))
  return Section(
    "Linear probe",
    _paragraphs(protocols.linear_probe, entries),
    tuple(lines),
  )


# Type of an evaluator -> its section; in the order of the page.
_SECTIONS: dict[str, Callable[..., Section]] = {
  "classification": _classification,
  "fewshot": _fewshot,
  "knn": _knn,
  "linear_probe": _linear_probe,
}


def _paragraphs(
  write: Callable[[protocols.Entry], list[str]],
  entries: Mapping[str, protocols.Entry],
) -> tuple[str, ...]:
  """One for each entry that differs from those before."""
  return tuple(dict.fromkeys(" ".join(write(e)) for e in entries.values()))


def _values(
  subjects: Sequence[Subject], metric: str
) -> list[float | int | None]:
  return [one.metrics.get(metric) for one in subjects]


def _percent(fraction: float | None) -> str:
  return formatting.percent(fraction).removesuffix("%")


def _line(
  name: str,
  values: Sequence[float | None],
  write: Callable[[float | None], str],
  best: Callable[..., float] | None,
) -> Line:
  cells = tuple(write(value) for value in values)
  return Line(name, cells, _best(values, cells, best))


def _line_of_cells(
  name: str, cells: Sequence[fewshot.Cell | None], *, is_mean: bool
) -> Line | None:
  if not any(cells):
    return None
  texts = tuple(cell.text if cell else formatting.MISSING for cell in cells)
  means = [cell.mean if cell else None for cell in cells]
  shown = [text.partition(" ±")[0] for text in texts]
  return Line(name, texts, _best(means, shown, max), is_mean)


def _best(
  values: Sequence[float | None],
  shown: Sequence[str],
  best: Callable[..., float] | None,
) -> tuple[bool, ...]:
  """Which cells look as the best one does; none where there is no choice."""
  finite = [v for v in values if v is not None and math.isfinite(v)]
  if best is None or len(finite) < 2:
    return (False,) * len(values)
  winner = shown[list(values).index(best(finite))]
  marks = tuple(text == winner for text in shown)
  return marks if not all(marks) else (False,) * len(marks)


def _cells_of(table: fewshot.Table | None, row: str) -> dict[int, fewshot.Cell]:
  rows = table.rows if table else ()
  return next((one.cells for one in rows if one.name == row), {})


def _figure(
  title: str,
  names: Sequence[str],
  columns: Sequence[Mapping[int, fewshot.Cell]],
  x_label: str,
) -> Figure | None:
  """A line for each checkpoint."""
  rows = [
    fewshot.Row(name, dict(cells))
    for name, cells in zip(names, columns, strict=True)
  ]
  described = "; ".join(
    f"{row.name}: "
    + ", ".join(f"{k}: {cell.text}%" for k, cell in row.cells.items())
    for row in rows
    if row.cells
  )
  title = title[0].upper() + title[1:]
  drawn = figures.draw(
    rows, label=f"{title}, by {x_label}. {described}.", x_label=x_label
  )
  return None if drawn is None else Figure(drawn, title)
