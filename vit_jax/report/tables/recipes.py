"""The config that makes each cell of the paper's tables.

A place that no shipped config makes has None, and every page says so.
"""

from vit_jax.paper import vtab
from vit_jax.paper.table import Row, Table

# What stands for a column of a table as `dataset=` of configs/finetune.py.
# ReaL is other labels of ImageNet's validation images: the same run has it.
FINETUNING = {
  "imagenet": "imagenet2012",
  "real": "imagenet2012",
  "cifar10": "cifar10",
  "cifar100": "cifar100",
  "pets": "oxford_iiit_pet",
  "flowers": "oxford_flowers102",
}
# Table 2 alone: sides of the images of ImageNet, pixels.
LARGE_IMAGES = {"ViT-L/16": 512, "ViT-H/14": 518}
# Results whose pre-training has no recipe in Table 3.
_WITHOUT_RECIPE = {
  ("jft", "R200x3", 14),
  ("jft", "R152x2", 14),
  ("i21k", "ViT-H/14", None),
}


def main(table: Table, row: Row) -> str | None:
  """The row's own config: of pre-training; in Table 4, of fine-tuning."""
  if table.number == 4:
    dataset = row.cells.get("dataset")
    return f"configs/finetune.py:dataset={dataset.value}" if dataset else None
  if (
    row.model is None
    or row.data is None
    or row.optimizer != "adam"
    or (row.data, row.model, row.epochs) in _WITHOUT_RECIPE
  ):
    return None
  epochs = "" if row.epochs is None else f",epochs={row.epochs:g}"
  return f"configs/pretrain.py:model={short(row)},data={row.data}{epochs}"


def finetuning(table: Table, row: Row, column: str) -> str | None:
  """The config that fine-tunes a row's network for one of its columns.

  Its `init_from` is to be the workdir of the pre-training.
  """
  if row.model is None or table.number in (3, 4, 8):
    return None
  if table.number == 9:
    is_task = column in vtab.TASKS
    task = f"configs/vtab.py:task={column},model={short(row)}"
    return task if is_task else None
  dataset = FINETUNING.get(column)
  if dataset is None:
    return None
  arguments = f"dataset={dataset},model={short(row)}"
  if has_large_images(table, column):
    arguments += f",image_size={LARGE_IMAGES[row.model]},polyak"
  return f"configs/finetune.py:{arguments}"


def has_large_images(table: Table, column: str) -> bool:
  """Whether a column is of larger images, with averaged parameters."""
  return table.number == 2 and FINETUNING.get(column) == "imagenet2012"


def short(row: Row) -> str:
  """'B/16', 'R50+B/16', 'R50x1': what configs call the network."""
  return row.model.replace("R50x1+", "R50+").replace("ViT-", "")


def missing(table: Table, row: Row) -> tuple[str, ...]:
  """Titles of what a row needs and no shipped config makes."""
  if row.model is None and table.number != 4:
    return ()
  found = []
  if table.number != 1 and main(table, row) is None:
    found.append("the fine-tuning" if table.number == 4 else "the pre-training")
  if table.number == 9:
    found += [
      task.title
      for key, task in vtab.TASKS.items()
      if finetuning(table, row, key) is None
    ]
  return tuple(found)
