"""Every config that a table names resolves, and is of the row's network."""

import functools
import pathlib

import pytest

from vit_jax import checks, registry
from vit_jax.config import experiment_file, names, resolve
from vit_jax.paper import results, vtab
from vit_jax.paper.datasets import DATASETS
from vit_jax.report.tables import recipes

ROOT = pathlib.Path(__file__).parents[3]
ROWS = [
  pytest.param(table, row, id=f"{table.number}-{row.name}-{row.data}-{index}")
  for table in results.TABLES.values()
  for index, row in enumerate(table.rows)
]
every_row = pytest.mark.parametrize("table, row", ROWS)


def size_of(model):
  """The numbers that fix the shapes of `config.model`'s network."""
  return registry.FAMILIES.get(model.name).size(model)


@functools.cache
def load(config):
  path, _, arguments = config.partition(":")
  return resolve.resolve(
    experiment_file.load(str(ROOT / path), arguments or None)
  )


def finetunings(table, row):
  found = {key: recipes.finetuning(table, row, key) for key in table.columns}
  return {key: config for key, config in found.items() if config}


@every_row
def test_pre_training_is_the_rows(table, row):
  config = recipes.main(table, row)
  if config is None or table.number == 4:
    return
  resolved = load(config)
  checks.check(resolved)
  assert size_of(resolved.model) == size_of(names.find(row.model))
  if row.data is not None:
    assert resolved.train.dataset == results.PRETRAINING_DATASETS[row.data]
  if row.epochs is not None:
    assert resolved.total_epochs == row.epochs
  optimizers = {"adamw": "adam", "sgd": "sgd"}
  assert optimizers[resolved.optimizer.name] == row.optimizer


@pytest.mark.parametrize("row", results.TABLE_3.rows, ids=lambda r: r.name)
def test_pre_training_is_as_table_3_has_it(row):
  resolved = load(recipes.main(results.TABLE_3, row))
  assert resolved.schedule.base_lr == row.cells["base_lr"].value
  assert resolved.schedule.decay == row.cells["decay"].value
  assert resolved.optimizer.weight_decay == row.cells["weight_decay"].value
  dropout = getattr(resolved.model, "dropout_rate", 0)
  assert dropout == row.cells["dropout"].value
  assert resolved.schedule.warmup_steps == 10_000
  assert resolved.train.batch_size == 4096


@pytest.mark.parametrize(
  "row",
  [row for row in results.TABLE_4.rows if "dataset" in row.cells],
  ids=lambda r: r.name,
)
def test_fine_tuning_is_as_table_4_has_it(row):
  resolved = load(recipes.main(results.TABLE_4, row))
  rates = [float(word) for word in row.cells["base_lr"].value.split(",")]
  assert list(resolved.sweep.learning_rates) == rates
  assert resolved.total_steps == row.cells["steps"].value
  kept = 100 - row.cells["dev_percent"].value
  assert resolved.sweep.train_split == f"train[:{kept}%]"
  assert resolved.train.batch_size == 512
  assert resolved.model.image_size == 384


@every_row
def test_fine_tuning_is_the_rows(table, row):
  for column, config in finetunings(table, row).items():
    resolved = load(config)
    checks.check(resolved)
    assert size_of(resolved.model) == size_of(names.find(row.model))
    if table.number == 9:
      task = vtab.TASKS[column]
      assert resolved.train.dataset == task.dataset
      assert resolved.train.split == task.train
      assert resolved.train.label_key == task.label_key
      assert resolved.evals["test"].split == task.test
    elif column != "vtab":
      assert resolved.train.dataset == results.FINETUNING[column]
    if column == "real":
      assert "real" in resolved.evals


def test_table_2_has_large_images_and_averages_on_imagenet_alone():
  for row in results.TABLE_2.rows:
    for column, config in finetunings(results.TABLE_2, row).items():
      resolved = load(config)
      if column in ("imagenet", "real"):
        size = 518 if row.name == "ViT-H/14" else 512
        assert (resolved.model.image_size, resolved.ema_decay) == (size, 0.9999)
      else:
        assert (resolved.model.image_size, resolved.ema_decay) == (384, None)


def test_every_place_of_table_8_is_a_pre_training_of_its_own():
  found = set()
  for row in results.TABLE_8.rows:
    for column in ("stem", "every_layer", "every_layer_shared"):
      if column in row.cells:
        model = load(recipes.pretraining(results.TABLE_8, row, column)).model
        assert model.variant == "B/16"
        assert model.pos_embedding == row.cells["pos_embedding"].value
        assert model.pos_embedding_at == column
        found.add((model.pos_embedding, model.pos_embedding_at))
  assert len(found) == 8
  assert (
    recipes.pretraining(results.TABLE_6, results.TABLE_6.rows[0], "real")
    is None
  )


@every_row
def test_every_row_of_ours_has_its_configs(table, row):
  is_ours = row.model is not None or table.number == 4
  has_config = is_ours and table.number != 1
  assert (recipes.main(table, row) is not None) == has_config
  if is_ours and table.number in (2, 5, 6, 7, 9):
    made = finetunings(table, row)
    more = {2: ("vtab",), 9: tuple(vtab.TASKS)}.get(table.number, ())
    assert set(made) == {
      key for key in row.cells if key in (*results.FINETUNING, *more)
    }


def test_vtab_of_table_2_is_the_tasks_of_table_9():
  row = results.TABLE_2.find("ViT-L/16", data="jft")
  assert recipes.finetuning(results.TABLE_2, row, "vtab") == (
    "configs/vtab.py:model=L/16"
  )
  ours = load(recipes.finetuning(results.TABLE_2, row, "vtab"))
  task = load(recipes.finetuning(results.TABLE_9, row, "caltech101"))
  assert ours == task  # vit_jax.vtab puts every task in its place.


def test_vtab_is_fine_tuned_as_table_4_has_it():
  row = results.TABLE_4.find("VTAB (19 tasks)")
  resolved = load(recipes.main(results.TABLE_4, row))
  assert resolved.total_steps == row.cells["steps"].value
  assert resolved.schedule.base_lr == row.cells["base_lr"].value


def test_what_table_3_has_not_is_inferred():
  inferred = {
    (table.number, row.name, row.data, row.epochs)
    for table in results.TABLES.values()
    for row in table.rows
    if recipes.is_inferred(row)
  }
  assert inferred == {
    (5, "ViT-H/14", "i21k", 90),
    (6, "R152x2", "jft", 14),
    (6, "R200x3", "jft", 14),
  }


def test_columns_are_datasets_whose_classes_are_known():
  assert set(results.FINETUNING) == set(results.TRANSFER)
  assert set(results.FINETUNING.values()) <= set(DATASETS)
