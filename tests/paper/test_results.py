"""The paper's tables agree with themselves, except where it is said."""

import pytest

from vit_jax.config import named_sections
from vit_jax.paper import contradictions, cost, results
from vit_jax.paper.table import Cell, lines

TABLES = results.TABLES


def numbers(row, keys):
  return {key: row.cells[key].value for key in keys if key in row.cells}


def differences(row, other):
  """Column -> the two numbers, where they are not the same."""
  mine = numbers(row, results.TRANSFER)
  theirs = numbers(other, results.TRANSFER)
  return {k: (v, theirs[k]) for k, v in mine.items() if theirs[k] != v}


def test_all_tables_are_there_and_sourced():
  assert list(TABLES) == list(range(1, 10))
  for table in TABLES.values():
    assert table.source and table.title and table.rows


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.number)
def test_every_cell_has_a_column_and_accuracies_are_ones(table):
  for row in table.rows:
    assert row.cells.keys() <= table.columns.keys()
    for key, cell in row.cells.items():
      if table.columns[key].is_accuracy:
        top = 100 if table.columns[key].unit == "%" else 1
        assert 0.3 * top < cell.value < top
        assert cell.std is None or 0 <= cell.std < 2


@pytest.mark.parametrize("name", ["B/16", "B/32", "L/32", "L/16"])
def test_table_5_has_rows_of_table_6(name):
  """The longer L/16, and the others' 7 epochs."""
  row = TABLES[5].find(f"ViT-{name}", data="jft")
  epochs = 14 if name == "L/16" else 7
  assert row.epochs == epochs
  assert differences(row, TABLES[6].find(row.name, epochs=epochs)) == {}


def test_tables_5_and_6_differ_on_h14_as_is_said():
  row = TABLES[5].find("ViT-H/14", data="jft")
  other = TABLES[6].find("ViT-H/14")
  assert differences(row, other) == contradictions.H14_IN_TABLES_5_AND_6


def test_table_6_has_one_hybrid_whose_costs_are_not_linear_in_epochs():
  odd = {}
  for row in TABLES[6].rows:
    if row.epochs == 14:
      shorter = [
        other
        for other in TABLES[6].rows
        if other.name == row.name and other.epochs == 7
      ]
      for other in shorter:
        half = row.cells["exaflops"].value / 2
        if abs(half / other.cells["exaflops"].value - 1) > 0.01:
          odd[row.name] = (other.cells["exaflops"].value, half)
  assert odd == {"R50x1+ViT-L/16": contradictions.HYBRID_L16_EXAFLOPS}


def test_table_7_has_adams_rows_of_table_6():
  for row in TABLES[7].rows:
    other = TABLES[6].find(row.name, epochs=7)
    same = all(row.cells[k] == other.cells[k] for k in results.AVERAGED)
    assert same == (row.optimizer == "adam")


@pytest.mark.parametrize("row", TABLES[7].rows, ids=lambda r: r.name)
def test_averages_of_table_7_are_means(row):
  mean = sum(row.cells[key].value for key in results.AVERAGED) / 5
  assert row.cells["average"].value == pytest.approx(mean, abs=0.00501)


def test_table_2_compares_on_vtab_and_real_as_is_said():
  bit = TABLES[2].find("BiT-L (ResNet152x4)").cells
  vit = TABLES[2].find("ViT-L/16", data="jft").cells
  ahead = {k for k in vit if k in bit and vit[k].value > bit[k].value}
  ahead -= {"pretraining", "tpu_core_days"}
  assert results.TABLE_2.columns.keys() - ahead == {
    "real",
    "vtab",
    "pretraining",
    "tpu_core_days",
  }
  assert vit["real"].value == bit["real"].value


def test_90_epochs_of_imagenet21k_fit_the_cost_in_table_2():
  """In core-days as in images, next to 14 epochs of JFT-300M."""
  days = {
    data: TABLES[2].find("ViT-L/16", data=data).cells["tpu_core_days"].value
    for data in ("i21k", "jft")
  }
  by_images = 90 * 14e6 / (14 * 303e6)
  assert days["i21k"] / days["jft"] == pytest.approx(by_images, rel=0.15)


def test_table_3_has_a_recipe_of_all_results_but_those_said_to_have_none():
  recipes = {(row.data, row.name, row.epochs) for row in TABLES[3].rows}
  results_of = {
    (row.data, row.name, row.epochs)
    for number in (2, 5, 6)
    for row in TABLES[number].rows
    if row.model is not None
  }
  assert results_of - recipes == {
    ("jft", "R200x3", 14),
    ("jft", "R152x2", 14),
    ("i21k", "ViT-H/14", 90),
  }
  text = contradictions.CONTRADICTIONS["missing_recipes"].sentence
  assert all(name in text for _, name, _ in results_of - recipes)


def test_weight_decay_and_decay_of_table_3_go_by_dataset():
  found = {
    (row.data, row.cells["weight_decay"].value, row.cells["decay"].value)
    for row in TABLES[3].rows
  }
  assert found == {
    ("jft", 0.1, "linear"),
    ("i21k", 0.03, "linear"),
    ("i1k", 0.3, "cosine"),
  }


@pytest.mark.parametrize("row", TABLES[1].rows, ids=lambda r: r.name)
def test_parameters_of_table_1_are_the_networks(row):
  ours = cost.num_params(row.model)
  assert row.cells["params"].value == pytest.approx(ours, rel=0.01)


def test_table_1_s_large_is_l32_with_its_pre_training_head():
  model = named_sections.section(
    "model", variant="L/32", representation_size="width"
  )
  assert cost.num_params(model) // 1_000_000 == 307
  assert round(cost.num_params("ViT-L/16") / 1e6) == 304


def test_best_in_table_8_is_one_dimension_at_every_layer_shared():
  best = max(
    (cell.value, row.name, key)
    for row in TABLES[8].rows
    for key, cell in row.cells.items()
    if TABLES[8].columns[key].is_accuracy
  )
  assert best == (0.64292, "1-D", "every_layer_shared")


def test_literals_are_read_as_they_look():
  (row,) = lines("A | x y z w\nB/1 | 1e-3 88.55±0.04 - linear")
  assert row == (
    "B/1",
    {"x": Cell(1e-3), "y": Cell(88.55, 0.04), "w": Cell("linear")},
  )
  with pytest.raises(ValueError):
    lines("A | x y\nB | 1")
