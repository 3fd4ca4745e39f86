"""The config that produces each cell of the paper's tables."""

from vit_jax.paper import results, vtab
from vit_jax.paper.table import Row, Table


def main(table: Table, row: Row) -> str | None:
  """Returns the row's config, for pre-training or (Table 4) fine-tuning.

  For Table 8, it is that of the first column.
  """
  if table.number == 4:
    dataset = row.cells.get("dataset")
    if dataset is None:
      return "configs/vtab.py"
    return f"configs/finetune.py:dataset={dataset.value}"
  if table.number == 8:
    return _position_embeddings(row, "stem")
  if row.model is None or row.data is None:
    return None
  epochs = "" if row.epochs is None else f",epochs={row.epochs:g}"
  file = {"adam": "pretrain", "sgd": "resnet"}[row.optimizer]
  return f"configs/{file}.py:model={row.variant},data={row.data}{epochs}"


def is_inferred(row: Row) -> bool:
  """Tells if a row's pre-training with Adam is missing from Table 3."""
  if row.model is None or row.data is None or row.optimizer != "adam":
    return False
  return not any(
    (row.model, row.data, row.epochs) == (one.model, one.data, one.epochs)
    for one in results.TABLE_3.rows
  )


def pretraining(table: Table, row: Row, column: str) -> str | None:
  """Returns the config of a Table 8 cell; each is a pre-training."""
  if table.number != 8 or not table.columns[column].is_accuracy:
    return None
  return _position_embeddings(row, column)


def _position_embeddings(row: Row, place: str) -> str:
  """Returns the config of a kind of position embedding at a place."""
  kind = row.cells["pos_embedding"].value
  return f"configs/ablation_posembed.py:kind={kind},at={place}"


def finetuning(table: Table, row: Row, column: str) -> str | None:
  """Returns the config that fine-tunes a row's network for a column.

  Its `init_from` should be the workdir of the pre-training. The config for all
  of VTAB is for `vit_jax.vtab`, which runs it for every task.
  """
  if row.model is None or table.number in (3, 4, 8):
    return None
  if table.number == 9:
    is_task = column in vtab.TASKS
    task = f"configs/vtab.py:task={column},model={row.variant}"
    return task if is_task else None
  if table.number == 2 and column == "vtab":
    return f"configs/vtab.py:model={row.variant}"
  dataset = results.FINETUNING.get(column)
  if dataset is None:
    return None
  arguments = f"dataset={dataset},model={row.variant}"
  if results.has_large_images(table, column):
    arguments += f",image_size={results.LARGE_IMAGES[row.model]},polyak"
  return f"configs/finetune.py:{arguments}"
