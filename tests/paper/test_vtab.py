"""VTAB's tasks, and Table 9 against its own means and against Table 2."""

import pytest

from vit_jax.paper import results, vtab

ROWS = pytest.mark.parametrize(
  "row", results.TABLE_9.rows, ids=lambda r: f"{r.name}-{r.data}"
)


def accuracies(row):
  return {key: row.cells[key].value for key in vtab.TASKS}


def test_there_are_nineteen_tasks_in_three_groups():
  sizes = {
    group: sum(task.group == group for task in vtab.TASKS.values())
    for group in vtab.GROUPS
  }
  assert sizes == {"natural": 7, "specialized": 4, "structured": 8}


@ROWS
def test_means_of_table_9_are_means_of_its_tasks(row):
  mean = vtab.group_means(accuracies(row))["mean"]
  # Nineteen numbers rounded to 0.1, and the mean once more.
  assert row.cells["mean"].value == pytest.approx(mean, abs=0.1)


@ROWS
def test_means_of_table_9_are_those_of_table_2(row):
  other = results.TABLE_2.find(row.name, data=row.data).cells["vtab"].value
  assert row.cells["mean"].value == pytest.approx(other, abs=0.0501)


def test_group_means_of_h14_are_those_of_the_facts():
  row = results.TABLE_9.find("ViT-H/14")
  means = vtab.group_means(accuracies(row))
  assert round(means["natural"], 2) == 86.69
  assert round(means["specialized"], 2) == 87.00
  assert round(means["structured"], 2) == 65.03


def test_a_mean_over_fewer_tasks_is_left_out():
  row = results.TABLE_9.find("ViT-H/14")
  some = accuracies(row)
  del some["kitti"]
  assert vtab.group_means(some).keys() == {"natural", "specialized"}


def test_1000_images_are_trained_on():
  for task in vtab.TASKS.values():
    first, last = task.dev.split("[")[1].rstrip("]").split(":")
    assert int(last) - int(first or 0) == 200
    assert task.train == f"train[:800]+{task.dev}"
