import math

import pytest

from tests.report import comparisons, workdirs
from vit_jax.report import load, measures, panels, render

TOY = {
  "colours": {
    "prefix": "colour",
    "title": "Colour error",
    "protocol": "The mean colour of each image is guessed from its features.",
    "columns": [],
    "counts": "",
  }
}


def run_of(tmp_path, metrics, declared=comparisons.DECLARED):
  records = [{"step": 10, **metrics}, {"step": 20, **metrics}]
  return load.load_run(
    workdirs.write_run(tmp_path, records=records, evaluators=declared)
  )


def table_of(tmp_path, metrics, prefix="fewshot"):
  run = run_of(tmp_path, metrics)
  group = {one.prefix: one for one in measures.groups(run.evaluators)}[prefix]
  return measures.table(group, run.metrics())


def test_cells_hold_mean_and_deviation(tmp_path):
  table = table_of(
    tmp_path,
    {
      "fewshot/a/5shot": 0.8123,
      "fewshot/a/5shot_std": 0.0127,
      "fewshot/a/1shot": None,
      "fewshot/a/1shot_std": None,
    },
  )
  assert table.heads == ("1-shot", "5-shot")
  texts = {name: cell.text for name, cell in table.rows["a"].items()}
  assert texts == {"5-shot": "81.2 ± 1.3", "1-shot": "NaN"}


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
  texts = {name: cells["5-shot"].text for name, cells in table.rows.items()}
  assert texts == {"a": "80.0 ± 10.0", "a (l2 swept)": "90.0 ± 20.0"}
  assert table.mean == {}


def test_the_mean_is_over_datasets_that_all_have_the_shots(tmp_path):
  table = table_of(
    tmp_path,
    {"fewshot/a/1shot": 0.2, "fewshot/b/1shot": 0.4, "fewshot/b/5shot": 0.9},
  )
  means = {title: cell.mean for title, cell in table.mean.items()}
  assert means == {"1-shot": pytest.approx(0.3)}
  column, cell, row = measures.headline(table)
  assert (column.title, cell.text, row) == ("5-shot", "90.0", "b")


def test_without_counts_the_first_metric_that_has_a_curve_is_put_first(
  tmp_path,
):
  metrics = {"linear_probe/digits/l2": 1e-3, "linear_probe/digits/top1": 0.9}
  column, cell, row = measures.headline(
    table_of(tmp_path, metrics, "linear_probe")
  )
  assert (column.metric, cell.text, row) == ("top1", "90.00", "digits")
  del metrics["linear_probe/digits/top1"]
  table = table_of(tmp_path, metrics, "linear_probe")
  assert measures.headline(table) is None


def test_classifiers_are_columns(tmp_path):
  metrics = {
    "knn/digits/k20": 0.7,
    "knn/digits/k5": 0.8,
    "linear_probe/digits/top1": 0.9,
    "linear_probe/digits/l2": 1e-3,
  }
  near = table_of(tmp_path, metrics, "knn")
  assert near.heads == ("k = 5", "k = 20")
  cells = {head: cell.text for head, cell in near.rows["digits"].items()}
  assert cells == {"k = 5": "80.00", "k = 20": "70.00"}
  probe = table_of(tmp_path, metrics, "linear_probe")
  assert probe.rows["digits"]["l2"].text == "0.001"


def test_no_metrics_give_no_table(tmp_path):
  assert table_of(tmp_path, {"train/loss": math.pi}) is None


def test_the_report_of_a_run_explains_its_evaluators(tmp_path):
  page = render.render(run_of(tmp_path, comparisons.metrics()))
  assert '<data value="0.95">95.00</data>' in page
  assert "k = 20" in page and "exp(cosine / 0.07)" in page
  assert "Its l2 is 1024, fixed beforehand." in page


def test_an_evaluator_the_report_never_heard_of_is_drawn_and_explained(
  tmp_path,
):
  metrics = {"colour/digits/error": 0.25, "colour/digits/error_std": 0.5}
  run = run_of(tmp_path, metrics, TOY)
  page = render.render(run)
  assert "The mean colour of each image is guessed" in page
  assert '<data value="0.25">0.25</data>' in page
  assert "Colour error: error" in [one.title for one in panels.panels(run)]


@pytest.mark.parametrize(
  "damaged", [[], {"a": None}, {"a": {"prefix": 1}}, {"a": {"prefix": "knn"}}]
)
def test_damaged_declarations_leave_a_report(tmp_path, damaged):
  assert render.render(run_of(tmp_path, comparisons.metrics(), damaged))
