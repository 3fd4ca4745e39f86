"""Averages the runs that fill a table's cells."""

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence

from vit_jax.config import names
from vit_jax.paper import results, vtab
from vit_jax.paper.table import Row, Table
from vit_jax.report.tables import cells
from vit_jax.report.tables.runs import Found, differing

# Table -> column of a mean, and the columns it averages.
_MEANS = {7: ("average", results.AVERAGED), 9: ("mean", tuple(vtab.TASKS))}


@dataclasses.dataclass(frozen=True)
class Measurement:
  """One cell of a table, in the table's unit.

  Attributes:
    values: Values, one per seed.
    runs: Workdirs of the values, in the same order.
  """

  values: tuple[float, ...]
  runs: tuple[str, ...]

  @property
  def mean(self) -> float:
    return statistics.fmean(self.values)

  @property
  def std(self) -> float | None:
    """Returns the sample standard deviation over seeds; None for one seed."""
    return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclasses.dataclass(frozen=True)
class Measured:
  """A table's measurements.

  Attributes:
    cells: (row number, column) -> measurement.
    remarks: Sentences about runs that were found but could not be used.
  """

  cells: Mapping[tuple[int, str], Measurement]
  remarks: Sequence[str] = ()


def measure(
  table: Table, runs: Sequence[Found], remarks: Sequence[str] = ()
) -> Measured:
  """Averages the runs of each cell of a table.

  A run counts if its config declares the cell (`paper_row`), it is finished,
  and nothing that the cell requires was overridden. Runs of one cell that
  differ only in the seed are averaged; a cell is left empty if they, or the
  runs they started from, differ in other settings. The better of a ResNet's two
  fine-tuning recipes counts, as in the paper.

  Args:
    table: One of `paper.results`.
    runs: Runs that were found.
    remarks: Initial remarks.
  """
  remarks = list(remarks)
  places: dict[tuple[int, str], list[tuple[Found, float]]] = {}
  for run in runs:
    values, reasons, more = cells.fill(table, run)
    for place, value in values.items():
      places.setdefault(place, []).append((run, value))
    remarks += more
    for reason, columns in reasons.items():
      where = " and ".join(table.columns[key].title for key in columns)
      remarks.append(f"{run.name} is left out of {where}: it {reason}.")
  means = {}
  for (index, column), found in places.items():
    row, title = table.rows[index], table.columns[column].title
    averaged = []
    for group in _by_recipe(row, found):
      problem = _problem(group)
      if problem:
        remarks.append(f"{row.name}, {title}: {problem}; they are left out.")
      else:
        averaged.append(
          Measurement(
            tuple(value for _, value in group),
            tuple(run.name for run, _ in group),
          )
        )
    if averaged:
      means[index, column] = max(averaged, key=lambda one: one.mean)
    if len(averaged) > 1:
      both = " and ".join(f"{one.mean:.2f}" for one in averaged)
      remarks.append(
        f"{row.name}, {title}: {both} by Table 4 and by the HyperRule; the"
        " better counts, as in the paper."
      )
  if table.number == 8:
    remarks += _unlike([run for found in places.values() for run, _ in found])
  _add_means(table, means, runs, remarks)
  return Measured(means, tuple(dict.fromkeys(remarks)))


def _by_recipe(
  row: Row, found: Sequence[tuple[Found, float]]
) -> list[list[tuple[Found, float]]]:
  """Separates a ResNet's Table 4 runs from its HyperRule runs."""
  if names.find(row.model).name != "resnet":
    return [list(found)]
  groups = [
    [one for one in found if cells.is_by_hyper_rule(one[0]) == by_rule]
    for by_rule in (False, True)
  ]
  return [group for group in groups if group]


def _problem(found: Sequence[tuple[Found, float]]) -> str | None:
  """Explains why runs of one cell cannot be averaged; None if they can."""
  runs = [run for run, _ in found]
  described = ", ".join(run.name for run in runs)
  keys = differing([run.config for run in runs])
  if keys:
    return f"{described} differ in {', '.join(keys[:4])}"
  origins = [run.start.config if run.start else None for run in runs]
  if None not in origins:
    keys = differing(origins)
  elif len({run.config.init_from for run in runs}) > 1:
    keys = ["init_from"]
  if keys:
    return (
      f"{described} start from networks whose training differs in"
      f" {', '.join(keys[:4])}"
    )
  seeds = [(run.config.seed, run.config.init_from) for run in runs]
  if len(set(seeds)) < len(seeds):
    return f"{described} repeat a seed"
  return None


def _unlike(runs: Sequence[Found]) -> Iterator[str]:
  """Yields a sentence if cells cannot be compared with each other."""
  aside = {"model.pos_embedding", "model.pos_embedding_at"}
  keys = [k for k in differing([r.config for r in runs]) if k not in aside]
  if keys:
    yield (
      "Places of Table 8 are comparable among runs of one setting; these"
      f" differ in {', '.join(keys[:4])} as well."
    )


def _add_means(
  table: Table,
  means: dict[tuple[int, str], Measurement],
  runs: Sequence[Found],
  remarks: list[str],
) -> None:
  """Adds means over columns; a mean over only some becomes a remark."""
  if table.number == 2:
    tasks = measure(results.TABLE_9, runs).cells
    for index, row in enumerate(table.rows):
      for other, task in enumerate(results.TABLE_9.rows):
        if row.key == task.key and (other, "mean") in tasks:
          means[index, "vtab"] = tasks[other, "mean"]
  column, over = _MEANS.get(table.number, (None, ()))
  for index, row in enumerate(table.rows):
    there = [means[index, key] for key in over if (index, key) in means]
    if not there:
      continue
    mean = statistics.fmean(one.mean for one in there)
    if len(there) == len(over):
      used = dict.fromkeys(name for one in there for name in one.runs)
      means[index, column] = Measurement((mean,), tuple(used))
      continue
    paper = statistics.fmean(
      row.cells[key].value for key in over if (index, key) in means
    )
    remarks.append(
      f"{row.name}, {results.PRETRAINING[row.data]}: {column} over the"
      f" {len(there)} of {len(over)} that were measured {mean:.2f}, the paper's"
      f" over the same {paper:.2f}."
    )
