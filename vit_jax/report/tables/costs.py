"""Costs and sums of rows of the paper's tables, computed from shapes."""

from vit_jax.config import names, schema
from vit_jax.paper import cost, results, vtab
from vit_jax.paper.datasets import DATASETS
from vit_jax.paper.table import Row, Table

# From Table 4: fine-tuning images, 512 per step.
_FINETUNING_IMAGES = {
  row.cells["dataset"].value: 512 * row.cells["steps"].value
  for row in results.TABLE_4.rows
  if "dataset" in row.cells
}
_VTAB_IMAGES = (
  512 * results.TABLE_4.find("VTAB (19 tasks)").cells["steps"].value
)


def computed(table: Table, row: Row) -> dict[str, int | float]:
  """Returns our own numbers for a row, by name; {} if there are none.

  `exaflops` is the cost of pre-training and `finetuning_exaflops` that of all
  fine-tunings of the row at one learning rate each, both as three times the
  forward passes. `steps` have 4096 images. `params` include a linear head of
  1000 classes. `average`, `mean` and groups of VTAB are means of the printed
  numbers.
  """
  if table.number == 4:
    return _passes(row)
  if row.model is None:
    return {}
  if table.number == 1:
    return {"params": cost.num_params(row.model)}
  if table.number == 8:
    return _position_embeddings(row)
  found = {}
  if row.data is not None and row.epochs is not None:
    images = num_images(row.data)
    found["exaflops"] = cost.training_exaflops(row.model, images, row.epochs)
    if table.number == 3:
      found["steps"] = round(row.epochs * images / 4096)
  finetuning = finetuning_exaflops(table, row)
  if finetuning:
    found["finetuning_exaflops"] = finetuning
  numbers = {
    key: cell.value
    for key, cell in row.cells.items()
    if isinstance(cell.value, int | float)
  }
  if table.number == 7:
    found["average"] = sum(numbers[k] for k in results.AVERAGED) / 5
  if table.number == 9:
    found |= vtab.group_means(numbers)
  return found


def num_images(data: str) -> int:
  """Returns the number of pre-training images: 'i1k', 'i21k' or 'jft'."""
  dataset = results.PRETRAINING_DATASETS[data]
  return DATASETS[dataset].num_examples["train"]


def finetuning_exaflops(table: Table, row: Row) -> float:
  """Costs fine-tuning once per column, 10^18 FLOPs; ReaL needs none.

  Table 2's VTAB column is nineteen fine-tunings, those of Table 9.
  """
  return _finetuning_flops(table, row) / 1e18


def _finetuning_flops(table: Table, row: Row) -> float:
  total = 0.0
  for column in table.columns:
    config = results.FINETUNING.get(column)
    if table.number == 2 and column == "vtab":
      total += _finetuning_flops(results.TABLE_9, row)
      continue
    if table.number == 9 and column in vtab.TASKS:
      images, classes = _VTAB_IMAGES, vtab.TASKS[column].num_classes
    elif table.number == 9 or config is None or column == "real":
      continue
    else:
      images = _FINETUNING_IMAGES[config]
      classes = DATASETS[config].num_classes
    large = results.has_large_images(table, column)
    side = results.LARGE_IMAGES[row.model] if large else 384
    total += (
      3
      * images
      * cost.forward_flops(at_size(row.model, side), num_classes=classes)
    )
  return total


def at_size(name: str, image_size: int) -> schema.Model:
  """Returns a named network for images of this side, in pixels."""
  return names.find(name).model_copy(
    update={"image_size": image_size, "drop_remainder": True}
  )


def _position_embeddings(row: Row) -> dict[str, int | float]:
  kind = row.cells["pos_embedding"].value
  model = names.find(row.model).model_copy(update={"pos_embedding": kind})
  flops = cost.forward_flops(model, num_classes=1000)
  return {"forward_gflops": flops / 1e9}


def _passes(row: Row) -> dict[str, int | float]:
  """Converts the steps of Table 4 to epochs."""
  images = 512 * row.cells["steps"].value
  if "dataset" not in row.cells:
    return {"epochs": images / 1000}
  train = DATASETS[row.cells["dataset"].value].num_examples["train"]
  return {"epochs": images / train}
