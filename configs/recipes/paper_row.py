"""Declares which cells of the paper's tables an experiment fills.

A cell is 'TABLE:ROW:COLUMN=METRIC'. A pre-training names rows, by `Row.key`,
and leaves the column empty; a fine-tuning names columns, and its row is that of
the pre-training it started from. `paper_row.settings` keeps the values that
hold there, so that `vit_jax.tables` notices a later override.
"""

import json
from collections.abc import Sequence

import ml_collections

from vit_jax.config import resolve
from vit_jax.paper import results

_PRETRAINING = (
  "total_epochs",
  "total_steps",
  "objective.name",
  "optimizer.name",
  "train.dataset",
  "train.split",
  "model.name",
  "model.variant",
  "model.width",
  "model.depth",
  "model.num_heads",
  "model.mlp_dim",
  "model.image_size",
  "model.pool",
  "model.cls_token",
  "model.norm_after_pool",
  "model.pos_embedding",
  "model.pos_embedding_at",
)
_FINETUNING = (
  "total_steps",
  "ema_decay",
  "objective.name",
  "train.dataset",
  "train.split",
  "train.label_key",
  "train.batch_size",
  "model.image_size",
  "evals.test.dataset",
  "evals.test.split",
)
# The tables of position embeddings, and of tasks of VTAB.
_POSITIONS, _VTAB = 8, 9


def pretraining(
  config: ml_collections.ConfigDict, data: str, optimizer: str = "adam"
) -> None:
  """Declares the rows whose network, data and epochs are those of a config.

  Args:
    config: Changed in place.
    data: A key of `results.PRETRAINING`.
    optimizer: 'adam' or 'sgd'.
  """
  setting = (config.model.variant, data, config.total_epochs, optimizer)
  _declare(
    config,
    [
      f"{table.number}:{row.key}:"
      for table in results.TABLES.values()
      for row in table.rows
      if (row.variant, row.data, row.epochs, row.optimizer) == setting
      and any(column.is_accuracy for column in table.columns.values())
    ],
    _PRETRAINING,
  )


def position_embeddings(config: ml_collections.ConfigDict) -> None:
  """Declares the cell of Table 8 that a pre-training of B/16 fills."""
  model, table = config.model, results.TABLES[_POSITIONS]
  row = next(
    row
    for row in table.rows
    if row.cells["pos_embedding"].value == model.pos_embedding
  )
  cells = config.paper_row.cells
  if (model.pos_embedding, model.pos_embedding_at) != ("learned_1d", "stem"):
    cells = ()  # Every other table has learned embeddings at the stem.
  if model.pos_embedding_at in row.cells:
    metric = "fewshot/imagenet/5shot"
    cells += (f"{_POSITIONS}:{row.key}:{model.pos_embedding_at}={metric}",)
  _declare(config, cells, _PRETRAINING)


def finetuning(config: ml_collections.ConfigDict) -> None:
  """Declares the columns that a fine-tuning fills, by dataset and averaging.

  Table 2 has larger images and Polyak averages of ImageNet; which size goes
  with which network is checked when runs are read.
  """
  is_large = config.ema_decay is not None
  if is_large and config.model.image_size not in results.LARGE_IMAGES.values():
    return
  cells = []
  for table in results.TABLES.values():
    for column, dataset in results.FINETUNING.items():
      if column not in table.columns or dataset != config.train.dataset:
        continue
      if results.has_large_images(table, column) == is_large:
        name = "real" if column == "real" else "test"
        cells.append(f"{table.number}::{column}=eval/{name}/top1")
  _declare(config, cells, _FINETUNING)


def vtab(config: ml_collections.ConfigDict, task: str) -> None:
  """Declares the task of Table 9 that a fine-tuning reproduces."""
  _declare(config, [f"{_VTAB}::{task}=eval/test/top1"], _FINETUNING)


def nothing(config: ml_collections.ConfigDict) -> None:
  """Declares that an experiment changed from one of a table's is in none."""
  config.paper_row.update(cells=(), settings=())


def _declare(
  config: ml_collections.ConfigDict, cells: Sequence[str], keys: Sequence[str]
) -> None:
  values = resolve.flatten(resolve.resolve(config).model_dump(mode="json"))
  settings = (f"{k}={json.dumps(values[k])}" for k in keys if k in values)
  config.paper_row.update(
    cells=tuple(cells), settings=tuple(settings) if cells else ()
  )
