"""The config that makes each cell of the paper's tables."""

from vit_jax.paper import results, vtab
from vit_jax.paper.table import Row, Table


def main(table: Table, row: Row) -> str | None:
  """The row's own config: of pre-training; in Table 4, of fine-tuning.

  Of Table 8, that of its first column.
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
  """Tells if Table 3 lacks the pre-training of a row's network by Adam."""
  if row.model is None or row.data is None or row.optimizer != "adam":
    return False
  return not any(
    (row.model, row.data, row.epochs) == (one.model, one.data, one.epochs)
    for one in results.TABLE_3.rows
  )


def pretraining(table: Table, row: Row, column: str) -> str | None:
  """The config of a place of Table 8, where each is a pre-training."""
  if table.number != 8 or not table.columns[column].is_accuracy:
    return None
  return _position_embeddings(row, column)


def _position_embeddings(row: Row, place: str) -> str:
  """The config of a kind of position embedding at a place."""
  kind = row.cells["pos_embedding"].value
  return f"configs/ablation_posembed.py:kind={kind},at={place}"


def finetuning(table: Table, row: Row, column: str) -> str | None:
  """The config that fine-tunes a row's network for one of its columns.

  Its `init_from` is to be the workdir of the pre-training. That of VTAB as a
  whole is for `vit_jax.vtab`, which runs it for every task.
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
