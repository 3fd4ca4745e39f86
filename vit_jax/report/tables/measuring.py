"""Finds the runs that belong in a table's places."""

from collections.abc import Iterator, Sequence

from vit_jax.paper import results, vtab
from vit_jax.paper.table import Row, Table
from vit_jax.report.tables import fitting, recipes
from vit_jax.report.tables.measurement import Measured, Measurement
from vit_jax.report.tables.runs import Found, differing


def measure(
  table: Table, runs: Sequence[Found], remarks: Sequence[str] = ()
) -> Measured:
  """What runs come to in the places of a table.

  A run counts where it is finished, its network, how that was pre-trained and
  what it was fine-tuned on are the row's and the column's, and so are the size
  of its images, its averaging and its splits. Runs of one place that differ in
  the seed are averaged; a place is left empty where they, or the runs that they
  started from, differ in other settings, or where one run fits several rows. Of
  a ResNet's two recipes of fine-tuning the better counts, as in the paper.

  Args:
    table: of `paper.results`.
    runs: what there is.
    remarks: sentences to begin with.
  """
  remarks = list(remarks)
  places: dict[tuple[int, str], list[tuple[Found, float]]] = {}
  for run in runs:
    left_out: dict[str, list[str]] = {}
    for column in _columns(table):
      there, misses = fitting.fits(table, column, run)
      if len(there) == 1:
        ((index, value),) = there
        places.setdefault((index, column), []).append((run, value))
        remarks += fitting.shorter(table, column, run)
      elif there:
        remarks.append(
          f"{run.name} fits {len(there)} rows of Table {table.number}, as the"
          " epochs of its pre-training are not known; it is left out."
        )
      else:
        for miss in misses:
          left_out.setdefault(miss, []).append(table.columns[column].title)
    for miss, titles in left_out.items():
      where = " and ".join(titles)
      remarks.append(f"{run.name} is left out of {where}: it {miss}.")
  cells = {}
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
      cells[index, column] = max(averaged, key=lambda one: one.mean)
    if len(averaged) > 1:
      means = " and ".join(f"{one.mean:.2f}" for one in averaged)
      remarks.append(
        f"{row.name}, {title}: {means} by Table 4 and by the HyperRule; the"
        " better counts, as in the paper."
      )
  if table.number == 8:
    remarks += _unlike([run for found in places.values() for run, _ in found])
  _add_means(table, cells, runs, remarks)
  return Measured(cells, tuple(dict.fromkeys(remarks)))


def _columns(table: Table) -> list[str]:
  """Columns that a run of their own has."""
  if table.number in (2, 5, 6, 7):
    return [key for key in table.columns if key in recipes.FINETUNING]
  return [key for key, one in table.columns.items() if one.is_accuracy]


def _by_recipe(
  row: Row, found: Sequence[tuple[Found, float]]
) -> list[list[tuple[Found, float]]]:
  """Runs of one place; those of ResNets apart by Table 4 and HyperRule."""
  if not fitting.is_resnet(row):
    return [list(found)]
  groups = [
    [one for one in found if fitting.is_by_hyper_rule(one[0]) == by_rule]
    for by_rule in (False, True)
  ]
  return [group for group in groups if group]


def _problem(found: Sequence[tuple[Found, float]]) -> str | None:
  """Why runs of one place cannot be averaged."""
  runs = [run for run, _ in found]
  described = ", ".join(run.name for run in runs)
  keys = differing([run.config for run in runs])
  if keys:
    return f"{described} differ in {', '.join(keys[:4])}"
  origins = [run.origin.config for run in runs]
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
  """Says so where places hold what cannot be compared with each other."""
  aside = {f"model.{key}" for key in fitting.POSITIONS}
  keys = [k for k in differing([r.config for r in runs]) if k not in aside]
  if keys:
    yield (
      "Places of Table 8 are comparable among runs of one setting; these"
      f" differ in {', '.join(keys[:4])} as well."
    )


def _add_means(
  table: Table,
  cells: dict[tuple[int, str], Measurement],
  runs: Sequence[Found],
  remarks: list[str],
) -> None:
  """Means over columns, where all of them are there; else over how many."""
  if table.number == 7:
    for index in range(len(table.rows)):
      _add_mean(table, index, "average", results.AVERAGED, cells, remarks)
  elif table.number == 9:
    for index in range(len(table.rows)):
      _add_mean(table, index, "mean", tuple(vtab.TASKS), cells, remarks)
  elif table.number == 2:
    tasks = measure(results.TABLE_9, runs).cells
    for index, row in enumerate(table.rows):
      for other, task in enumerate(results.TABLE_9.rows):
        if (row.name, row.data) == (task.name, task.data):
          mean = tasks.get((other, "mean"))
          if mean is not None:
            cells[index, "vtab"] = mean


def _add_mean(
  table: Table,
  index: int,
  column: str,
  over: Sequence[str],
  cells: dict[tuple[int, str], Measurement],
  remarks: list[str],
) -> None:
  there = [key for key in over if (index, key) in cells]
  if not there:
    return
  row = table.rows[index]
  mean = sum(cells[index, key].mean for key in there) / len(there)
  if len(there) == len(over):
    used = dict.fromkeys(_used(index, over, cells))
    cells[index, column] = Measurement((mean,), tuple(used))
    return
  paper = sum(row.cells[key].value for key in there) / len(there)
  remarks.append(
    f"{row.name}, {results.PRETRAINING[row.data]}: {column} over the"
    f" {len(there)} of {len(over)} that were measured {mean:.2f}, the paper's"
    f" over the same {paper:.2f}."
  )


def _used(
  index: int,
  columns: Sequence[str],
  cells: dict[tuple[int, str], Measurement],
) -> Iterator[str]:
  for key in columns:
    yield from cells[index, key].runs
