"""Whether a run is of a place of a table, or why it just is not."""

import math
from collections.abc import Iterator

from vit_jax.config import names, schema, sizes
from vit_jax.paper import results, vtab
from vit_jax.paper.datasets import DATASETS
from vit_jax.paper.table import Row, Table
from vit_jax.report.tables import recipes
from vit_jax.report.tables.runs import Found

# Splits of train that are reported on, where Table 4 leaves them.
_TEST = {"imagenet2012": "validation"}
_REAL = "imagenet2012_real"
# Images of ImageNet's validation split that ReaL has labels for.
_NUM_REAL = 46_837
_SHOTS = 5
# Sides of images, pixels: of pre-training, and of fine-tuning ResNets by the
# HyperRule where it is not Table 4's.
_PRETRAINING_SIDE = 224
_HYPER_RULE_SIDES = {"cifar10": 128, "cifar100": 128}
POSITIONS = ("pos_embedding", "pos_embedding_at")


class _NearMissError(Exception):
  """A run that is of a row's network and data and yet not of its place."""


def fits(
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
  if run.origin.data not in (None, row.data):
    return None
  if run.origin.optimizer not in (None, row.optimizer):
    return None
  _check_origin(table, row, run)
  _check_structure(run.config.model, row, "has")
  if run.unfinished:
    raise _NearMissError(run.unfinished)
  large = recipes.has_large_images(table, column)
  side = recipes.LARGE_IMAGES[row.model] if large else 384
  if is_resnet(row) and is_by_hyper_rule(run):
    side = _HYPER_RULE_SIDES.get(dataset, side)
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
  if run.origin.data is None or run.config.objective.name != "supervised":
    return None
  structure = _structure(names.find(row.model)) | {
    "pos_embedding": row.cells["pos_embedding"].value,
    "pos_embedding_at": column if "every_layer" in row.cells else "stem",
  }
  if _structure(model) != structure:
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


def shorter(table: Table, column: str, run: Found) -> Iterator[str]:
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


def _structure(model: schema.Model) -> dict[str, object]:
  """What makes a network of the same size another one."""
  has_token = model.cls_token
  return {
    "pool": model.pool,
    "cls_token": model.pool == "cls" if has_token is None else has_token,
    "norm_after_pool": model.norm_after_pool,
    **{key: getattr(model, key) for key in POSITIONS},
  }


def _check_structure(model: schema.Model, row: Row, has: str) -> None:
  """Raises _NearMissError for another network than the row's."""
  expected = _structure(names.find(row.model))
  for key, value in _structure(model).items():
    if value != expected[key]:
      raise _NearMissError(
        f"{has} {key} {value!r}, {row.name} {expected[key]!r}"
      )


def _check_origin(table: Table, row: Row, run: Found) -> None:
  """Raises _NearMissError for another pre-training, as far as it is known."""
  origin, pretraining = run.origin, run.origin.config
  if origin.reason:
    raise _NearMissError(origin.reason)
  if pretraining is not None:
    model, objective = pretraining.model, pretraining.objective.name
    if objective != "supervised":
      raise _NearMissError(f"starts from a network trained by {objective}")
    if _size(model) != _size(run.config.model):
      raise _NearMissError(f"starts from {names.describe(model)}")
    _check_structure(model, row, "starts from a network that has")
    if model.image_size != _PRETRAINING_SIDE:
      raise _NearMissError(
        f"starts from a network trained at {model.image_size} px, the paper's"
        f" at {_PRETRAINING_SIDE} px"
      )
  if origin.unfinished:
    raise _NearMissError(origin.unfinished)
  if None not in (origin.epochs, row.epochs) and not math.isclose(
    origin.epochs, row.epochs, rel_tol=0.01
  ):
    raise _NearMissError(
      f"starts from {origin.epochs:.3g} epochs of pre-training, Table"
      f" {table.number} has {row.epochs:g}"
    )


def is_resnet(row: Row) -> bool:
  """Whether a row's network is fine-tuned by two recipes; hybrids are not."""
  return names.find(row.model).name == "resnet"


def is_by_hyper_rule(run: Found) -> bool:
  """Whether a fine-tuning's rate falls in steps; Table 4's is a cosine."""
  return run.config.schedule.decay == "steps"


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
