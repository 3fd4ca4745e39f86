"""Finds the runs that belong in a table's places."""

import math
from collections.abc import Iterator, Sequence

from vit_jax.config import names, schema, sizes
from vit_jax.paper import results, vtab
from vit_jax.paper.datasets import DATASETS
from vit_jax.paper.table import Row, Table
from vit_jax.report.tables import recipes
from vit_jax.report.tables.measurement import Measured, Measurement
from vit_jax.report.tables.runs import Found, differing

# Splits of train that are reported on, where Table 4 leaves them.
_TEST = {"imagenet2012": "validation"}
_REAL = "imagenet2012_real"
# Images of ImageNet's validation split that ReaL has labels for.
_NUM_REAL = 46_837
_SHOTS = 5


class _NearMissError(Exception):
  """A run that is of a row's network and data and yet not of its place."""


def measure(
  table: Table, runs: Sequence[Found], remarks: Sequence[str] = ()
) -> Measured:
  """What runs come to in the places of a table.

  A run counts where it is finished, its network, what that was pre-trained on
  and what it was fine-tuned on are the row's and the column's, and so are the
  size of its images, its averaging and its splits. Runs of one place that
  differ in the seed are averaged; a place is left empty where they differ in
  other settings, or where one run fits several rows.

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
      fitting, misses = _fits(table, column, run)
      if len(fitting) == 1:
        ((index, value),) = fitting
        places.setdefault((index, column), []).append((run, value))
        remarks += _shorter(table, column, run)
      elif fitting:
        remarks.append(
          f"{run.name} fits {len(fitting)} rows of Table {table.number}, as the"
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
    problem = _problem(found)
    if problem:
      title = table.columns[column].title
      remarks.append(
        f"{table.rows[index].name}, {title}: {problem}; the place stays empty."
      )
    else:
      cells[index, column] = Measurement(
        tuple(value for _, value in found), tuple(run.name for run, _ in found)
      )
  _add_means(table, cells, runs, remarks)
  return Measured(cells, tuple(dict.fromkeys(remarks)))


def _columns(table: Table) -> list[str]:
  """Columns that a run of their own has."""
  if table.number in (2, 5, 6, 7):
    return [key for key in table.columns if key in recipes.FINETUNING]
  return [key for key, one in table.columns.items() if one.is_accuracy]


def _fits(
  table: Table, column: str, run: Found
) -> tuple[list[tuple[int, float]], list[str]]:
  """Rows that a run is of, with its value; or why it just is not."""
  fitting, misses = [], []
  for index, row in enumerate(table.rows):
    if column not in row.cells or row.model is None:
      continue
    try:
      if table.number == 8:
        value = _fewshot(row, column, run)
      else:
        value = _transfer(table, row, column, run)
    except _NearMissError as miss:
      misses.append(str(miss))
      continue
    if value is not None:
      fitting.append((index, value))
  return fitting, list(dict.fromkeys(misses))


def _transfer(table: Table, row: Row, column: str, run: Found) -> float | None:
  """Accuracy of a fine-tuning, %; None: of another network or dataset."""
  train, config = run.config.train, run.config
  if not run.is_finetuning or not _same_network(run, row):
    return None
  if table.number == 9:
    task = vtab.TASKS[column]
    if recipes.finetuning(table, row, column) is None:
      return None
    dataset, label_key = task.dataset, task.label_key
    split, test = task.train, task.test
  else:
    dataset, label_key, split = recipes.FINETUNING[column], "label", "train"
    test = _TEST.get(dataset, "test")
  if (train.dataset, train.label_key) != (dataset, label_key):
    return None
  # A part of train: dev runs of a sweep, or VTAB's 1000 of the same dataset.
  if train.split != split:
    return None
  origin = run.origin
  if origin.data is None:
    raise _NearMissError(origin.reason)
  if origin.data != row.data or not _same_training(run, row):
    return None
  if run.unfinished:
    raise _NearMissError(run.unfinished)
  large = recipes.has_large_images(table, column)
  side = recipes.LARGE_IMAGES[row.model] if large else 384
  if config.model.image_size != side:
    raise _NearMissError(
      f"has images of {config.model.image_size} px, Table {table.number}"
      f" {side} px"
    )
  average = 0.9999 if large else None
  if config.ema_decay != average:
    raise _NearMissError(
      f"has ema_decay {config.ema_decay}, Table {table.number} {average}"
    )
  if column == "real":
    name = _evaluator(run, _REAL, "validation") or _evaluator(
      run, dataset, "validation", has_label_sets=True
    )
    expected = _NUM_REAL
  else:
    name = _evaluator(run, dataset, test)
    known = DATASETS.get(dataset) if table.number != 9 else None
    expected = known.num_examples[test] if known else None
  if name is None:
    if column == "real":  # The accuracy on ImageNet has a place of its own.
      return None
    raise _NearMissError(f"has no evaluator on {test!r} of {dataset}")
  return 100 * _top1(run, name, expected)


def _fewshot(row: Row, column: str, run: Found) -> float | None:
  """5-shot accuracy of a pre-training, a fraction; None: another network."""
  model = run.config.model
  if run.is_finetuning or not _same_network(run, row):
    return None
  if model.pos_embedding != row.cells["pos_embedding"].value:
    return None
  if "every_layer" in row.cells and model.pos_embedding_at != column:
    return None
  for one in run.config.evals.values():
    if one.type != "fewshot" or _SHOTS not in one.shots:
      continue
    for key, data in one.datasets.items():
      if data.dataset == "imagenet2012":
        if run.unfinished:
          raise _NearMissError(run.unfinished)
        metric = f"fewshot/{key}/{_SHOTS}shot"
        value = run.metrics.get(metric, math.nan)
        if math.isfinite(value):
          return value
        raise _NearMissError(f"has no {metric}")
  return None


def _shorter(table: Table, column: str, run: Found) -> Iterator[str]:
  """Says so where a run counts that is of other length than Table 4 has."""
  if table.number == 8:
    return
  dataset = None if table.number == 9 else recipes.FINETUNING[column]
  for row in results.TABLE_4.rows:
    cell = row.cells.get("dataset")
    if (cell.value if cell else None) == dataset:
      paper = (row.cells["steps"].value, 512)
      ours = (run.config.total_steps, run.config.train.batch_size)
      if ours != paper:
        yield (
          f"{run.name} counts, although it has {ours[0]} steps of {ours[1]}"
          f" images; Table 4 has {paper[0]:,} of {paper[1]}."
        )


def _same_network(run: Found, row: Row) -> bool:
  return _size(run.config.model) == _size(names.find(row.model))


def _size(model: schema.Model) -> object:
  return model.name, sizes.resolve(model)


def _same_training(run: Found, row: Row) -> bool:
  """Whether epochs and optimizer are a row's, as far as they are known."""
  origin = run.origin
  if origin.optimizer not in (None, row.optimizer):
    return False
  if None in (origin.epochs, row.epochs):
    return True
  return math.isclose(origin.epochs, row.epochs, rel_tol=0.01)


def _evaluator(
  run: Found, dataset: str, split: str, *, has_label_sets: bool = False
) -> str | None:
  """The name of a run's evaluator on a split, by its labels or a file's."""
  for name, one in run.config.evals.items():
    if one.type == "classification" and one.split == split:
      has_sets = one.label_sets is not None
      is_of = (one.dataset or run.config.train.dataset) == dataset
      if is_of and has_sets == has_label_sets:
        return name
  return None


def _top1(run: Found, name: str, expected: int | None) -> float:
  value = run.metrics.get(f"eval/{name}/top1", math.nan)
  if not math.isfinite(value):
    raise _NearMissError(f"has no eval/{name}/top1")
  count = run.metrics.get(f"eval/{name}/num_examples")
  if None not in (count, expected) and count != expected:
    raise _NearMissError(
      f"has eval/{name} of {count:,.0f} examples, not of all {expected:,}"
    )
  return value


def _problem(found: Sequence[tuple[Found, float]]) -> str | None:
  """Why runs of one place cannot be averaged."""
  described = ", ".join(run.name for run, _ in found)
  keys = differing([run.config for run, _ in found])
  if keys:
    return f"{described} differ in {', '.join(keys[:4])}"
  seeds = [run.config.seed for run, _ in found]
  if len(set(seeds)) < len(seeds):
    return f"{described} repeat a seed"
  return None


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
