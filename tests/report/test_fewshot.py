import math

import pytest

from tests.report import workdirs
from vit_jax.report import fewshot, load


def table_of(tmp_path, metrics):
  records = [{"step": 10, **metrics}]
  return fewshot.table(
    load.load_run(workdirs.write_run(tmp_path, records=records))
  )


def test_cells_hold_mean_and_deviation(tmp_path):
  table = table_of(
    tmp_path,
    {
      "fewshot/a/5shot": 0.8123,
      "fewshot/a/5shot_std": 0.0127,
      "fewshot/a/25shot": 0.9,
      "fewshot/a/10shot": None,
      "fewshot/a/10shot_std": None,
    },
  )
  assert table.shots == (5, 10, 25)
  (row,) = table.rows
  assert row.cells[5].text == "81.2 ± 1.3"
  assert row.cells[25].text == "90.0"
  assert row.cells[10].text == "NaN"
  assert list(row.finite_cells) == [5, 25]
  assert table.num_seeds == 3


def test_a_swept_ridge_has_a_row_of_its_own(tmp_path):
  table = table_of(
    tmp_path,
    {
      "fewshot/a/5shot": 0.8,
      "fewshot/a/5shot_std": 0.1,
      "fewshot/a/5shot_l2_swept": 0.9,
      "fewshot/a/5shot_l2_swept_std": 0.2,
    },
  )
  texts = {row.name: row.cells[5].text for row in table.rows}
  assert texts == {"a": "80.0 ± 10.0", "a (l2 swept)": "90.0 ± 20.0"}
  assert table.mean == {}


def test_the_mean_is_over_datasets_that_all_have_the_shots(tmp_path):
  table = table_of(
    tmp_path,
    {"fewshot/a/1shot": 0.2, "fewshot/b/1shot": 0.4, "fewshot/b/5shot": 0.9},
  )
  assert table.mean == {1: pytest.approx(0.3)}
  assert fewshot.headline(table) == ("90.0%", 5, "b")


def test_no_metrics_give_no_table(tmp_path):
  assert table_of(tmp_path, {"train/loss": math.pi}) is None
