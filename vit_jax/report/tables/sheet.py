"""A table as lines of text, for every human-readable format."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vit_jax.paper import results
from vit_jax.paper.table import Column
from vit_jax.report.formatting import MISSING, quantity

# Tables with more columns than this are transposed.
_MOST_COLUMNS = 14
# Computed numbers -> column head.
_COMPUTED = {
  "params": "parameters computed",
  "exaflops": "exaFLOPs computed",
  "finetuning_exaflops": "exaFLOPs of fine-tuning",
  "forward_gflops": "GFLOPs forward",
  "steps": "steps",
  "epochs": "epochs",
  "average": "average computed",
  "natural": "Natural computed",
  "specialized": "Specialized computed",
  "structured": "Structured computed",
  "mean": "mean computed",
}
_COUNTS = ("params", "steps")
_MEANS = ("average", "natural", "specialized", "structured", "mean")
_COMPARED = ("params", "exaflops")
_TO_THE_PAPER = "to the paper"


@dataclasses.dataclass(frozen=True)
class Line:
  """A row; `kind` is 'paper', or 'measured' for the row below it."""

  name: str
  cells: tuple[str, ...]
  kind: str = "paper"


@dataclasses.dataclass(frozen=True)
class Sheet:
  """A table as text.

  Attributes:
    number: Number in the paper; None for a table of ours.
    title: Title of the table.
    heads: Column heads, starting with that of the rows' names.
    lines: Rows, each with one cell fewer than there are heads.
    configs: (what it produces, --config) in the order of the rows.
    notes: Sentences below the table.
  """

  number: int | None
  title: str
  heads: tuple[str, ...]
  lines: tuple[Line, ...]
  configs: tuple[tuple[str, str], ...]
  notes: tuple[str, ...]

  @property
  def heading(self) -> str:
    """Returns the title with the paper's number."""
    return f"Table {self.number}. {self.title}" if self.number else self.title

  @property
  def is_word(self) -> tuple[bool, ...]:
    """Tells for each column whether it is left-aligned."""
    columns = zip(*(line.cells for line in self.lines), strict=True)
    return (True, *(not any(re.match(r"\d", x) for x in c) for c in columns))


def lay_out(document: Mapping[str, Any]) -> Sheet:
  """Lays out the sheet of a document."""
  columns = results.TABLES[document["table"]].columns
  rows = document["rows"]
  keys = [key for key in _COMPUTED if any(key in r["computed"] for r in rows)]
  heads = [""] + [column.title for column in columns.values()]
  for key in keys:
    heads += [_COMPUTED[key]] + [_TO_THE_PAPER] * _is_compared(key, columns)
  lines = []
  for row in rows:
    cells = [_printed(row, *item) for item in columns.items()]
    for key in keys:
      value = row["computed"].get(key)
      cells.append(_computed(key, value))
      if _is_compared(key, columns):
        cells.append(_relative(value, row["paper"].get(key)))
    lines.append(Line(row["row"], tuple(cells)))
    if row["measured"]:
      ours = [_measured(row, *item) for item in columns.items()]
      blank = [""] * (len(heads) - 1 - len(ours))
      lines.append(Line("measured", (*ours, *blank), "measured"))
  if len(columns) > _MOST_COLUMNS:
    heads, lines = _turned(heads, lines)
  return Sheet(
    number=document["table"],
    title=document["title"],
    heads=tuple(heads),
    lines=tuple(lines),
    configs=tuple(_configs(document)),
    notes=tuple(_notes(document)),
  )


def name(row: Mapping[str, Any]) -> str:
  """Names a row distinctly: 'ViT-L/16, JFT-300M, 14 epochs'."""
  parts = [row["row"]]
  parts += [row["paper"][k] for k in ("pretraining",) if k in row["paper"]]
  if "epochs" in row["paper"]:
    parts.append(f"{row['paper']['epochs']} epochs")
  parts += [row["paper"][k] for k in ("optimizer",) if k in row["paper"]]
  return ", ".join(parts)


def _printed(row: Mapping[str, Any], key: str, column: Column) -> str:
  """Formats the paper's value: '88.55 ± 0.04'."""
  value = row["paper"].get(key)
  if value is None:
    return MISSING
  std = row["paper_std"].get(key)
  return _number(value, column) + ("" if std is None else _std(std, column))


def _measured(row: Mapping[str, Any], key: str, column: Column) -> str:
  """Formats '88.49 ± 0.03 (−0.06)': over seeds, and minus the paper's."""
  mean = row["measured"].get(key)
  if mean is None:
    return ""
  text, std = _number(mean, column), row["measured_std"][key]
  if std is not None:
    text += _std(std, column)
  difference = (row["difference"] or {}).get(key)
  if difference is None:
    return text
  return f"{text} ({_signed(difference, column.digits or 0)})"


def _number(value: int | float | str, column: Column) -> str:
  if isinstance(value, str):
    return value.replace(",", ", ")
  if column.digits is None:
    return f"{value:g}"
  return f"{value:,.{column.digits}f}"


def _std(value: float, column: Column) -> str:
  return f" ± {_number(value, column)}"


def _computed(key: str, value: int | float | None) -> str:
  if value is None:
    return MISSING
  if key in _MEANS:
    return f"{value:.2f}"
  return f"{value:,.0f}" if key in _COUNTS else quantity(value, 4)


def _relative(ours: int | float | None, paper: int | float | None) -> str:
  """Formats the relative difference, '+2.0%'."""
  if ours is None or paper is None:
    return MISSING
  return f"{_signed(100 * (ours / paper - 1), 1)}%"


def _signed(value: float, digits: int) -> str:
  """Formats '+2.0', '−0.1' or '0.0'."""
  size = f"{abs(value):,.{digits}f}"
  if not float(size.replace(",", "")):
    return size
  return f"{'−' if value < 0 else '+'}{size}"


def _is_compared(key: str, columns: Mapping[str, Column]) -> bool:
  """Tells if a computed number is compared with the paper's."""
  return key in _COMPARED and key in columns


def _turned(
  heads: Sequence[str], lines: Sequence[Line]
) -> tuple[list[str], list[Line]]:
  """Transposes columns and lines."""
  return ["", *(line.name for line in lines)], [
    Line(head, tuple(cells))
    for head, *cells in zip(
      heads[1:], *(line.cells for line in lines), strict=True
    )
  ]


def _configs(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
  """Yields every row's config, then those of fine-tuning with MODEL.

  A column whose rows differ in more than the model has a line per row.
  """
  for row in document["rows"]:
    for key, config in row["pretraining"].items():
      yield f"{name(row)}, {document['columns'][key]}", config
    if row["config"] and not row["pretraining"]:
      yield name(row), row["config"]
  patterns: dict[str, dict[str, list[str]]] = {}
  for row in document["rows"]:
    for key, config in row["finetuning"].items():
      pattern = re.sub(r"model=[^,]+", "model=MODEL", config)
      patterns.setdefault(key, {}).setdefault(pattern, []).append(config)
  lines: dict[str, list[str]] = {}
  for key, found in patterns.items():
    for pattern, configs in found.items():
      kept = [pattern] if len(found) == 1 else dict.fromkeys(configs)
      for config in kept:
        lines.setdefault(config, []).append(document["columns"][key])
  for config, titles in lines.items():
    yield "fine-tuning: " + ", ".join(titles), config


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
  yield from document["notes"]
  for sentence in document["contradictions"]:
    yield f"The paper contradicts itself. {sentence}"
  inferred = [name(row) for row in document["rows"] if row["inferred"]]
  if inferred:
    yield (
      "Pre-training is inferred, as Table 3 does not have it, of:"
      f" {'; '.join(inferred)}."
    )
  yield from document["remarks"]
