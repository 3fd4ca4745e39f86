"""The few-shot results of a run as a table: datasets by shots."""

import dataclasses
import math
import re
from collections.abc import Mapping

from vit_jax.report import formatting
from vit_jax.report.run import Run

_METRIC = re.compile(r"fewshot/(?P<dataset>.+)/(?P<shots>\d+)shot(?P<how>\w*)")


@dataclasses.dataclass(frozen=True)
class Cell:
  """Accuracy, a fraction: mean and standard deviation over the seeds."""

  mean: float
  std: float | None

  @property
  def text(self) -> str:
    """'85.2 ± 0.9', in percent."""
    if not math.isfinite(self.mean):
      return "NaN"
    text = f"{100 * self.mean:.1f}"
    if self.std is not None and math.isfinite(self.std):
      text += f" ± {100 * self.std:.1f}"
    return text


@dataclasses.dataclass(frozen=True)
class Row:
  """One dataset (under one way of choosing the ridge), shots -> accuracy."""

  name: str
  cells: dict[int, Cell]

  @property
  def finite_cells(self) -> dict[int, Cell]:
    return {
      shots: cell
      for shots, cell in self.cells.items()
      if math.isfinite(cell.mean)
    }


@dataclasses.dataclass(frozen=True)
class Table:
  """Rows in the order of the metrics; shots ascending."""

  shots: tuple[int, ...]
  rows: tuple[Row, ...]
  mean: dict[int, float]  # Over datasets; empty unless there are several.
  num_datasets: int
  num_seeds: int | None


def table(run: Run) -> Table | None:
  """The last few-shot values of a run; None where there are none."""
  seeds = {
    e["num_seeds"]
    for e in run.section("evals").values()
    if isinstance(e, dict) and isinstance(e.get("num_seeds"), int)
  }
  return of_metrics(run.metrics(), seeds.pop() if len(seeds) == 1 else None)


def of_metrics(
  metrics: Mapping[str, float | int], num_seeds: int | None
) -> Table | None:
  """The few-shot values among metrics; None where there are none.

  Args:
    metrics: `fewshot/<dataset>/<k>shot` and `..._std` count, fractions.
    num_seeds: draws that they are means over, if known.
  """
  rows: dict[tuple[str, str], dict[int, Cell]] = {}
  for name, value in metrics.items():
    match = _METRIC.fullmatch(name)
    if not match or match["how"].endswith("_std"):
      continue
    std = metrics.get(f"{name}_std")
    key = (match["how"].strip("_"), match["dataset"])
    rows.setdefault(key, {})[int(match["shots"])] = Cell(value, std)
  if not rows:
    return None
  shots = tuple(sorted({shot for cells in rows.values() for shot in cells}))
  named = []
  for (how, dataset), cells in rows.items():
    name = f"{dataset} ({how.replace('_', ' ')})" if how else dataset
    named.append(Row(name, dict(sorted(cells.items()))))
  plain = [cells for (how, _), cells in rows.items() if not how]
  mean = {}
  if len(plain) > 1:
    for shot in shots:
      if all(shot in cells for cells in plain):
        mean[shot] = sum(c[shot].mean for c in plain) / len(plain)
  return Table(shots, tuple(named), mean, len(plain), num_seeds)


def headline(found: Table) -> tuple[str, int, str]:
  """(accuracy, shots, dataset) to put first: ten shots where there are."""
  shots = 10 if 10 in found.shots else found.shots[-1]
  if shots in found.mean:
    return (
      formatting.percent(found.mean[shots], 1),
      shots,
      f"mean of {found.num_datasets} datasets",
    )
  row = next(row for row in found.rows if shots in row.cells)
  return f"{row.cells[shots].text}%", shots, row.name
