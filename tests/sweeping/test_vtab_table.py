"""VTAB's score: unweighted means, and over how many tasks they are."""

import json

import pytest
from etils import epath

from tests import experiments
from vit_jax import records
from vit_jax.paper import results, vtab
from vit_jax.sweeping.plan import Run
from vit_jax.sweeping.vtab_table import ABSENT, FAILED, VtabTable


@pytest.fixture
def ended(tmp_path):
  """A function that pretends that the run of a task has ended."""

  def make(task, top1, status="finished", num_examples=100):
    run = Run(experiments.config(), epath.Path(tmp_path) / task, "test")
    run.workdir.mkdir()
    metrics = {"eval/test/top1": top1, "eval/test/num_examples": num_examples}
    records.write_json(
      run.workdir / "summary.json", {"status": status, "metrics": metrics}
    )
    return task, run

  return make


def written(tmp_path):
  return json.loads((tmp_path / "vtab.json").read_text())


def test_means_of_all_tasks_are_those_of_the_paper(tmp_path, ended):
  row = results.TABLE_9.rows[0]
  table = VtabTable(str(tmp_path))
  for task in vtab.TASKS:
    table.add(*ended(task, row.cells[task].value / 100))
  table.write()
  value = written(tmp_path)
  assert 100 * value["mean"]["top1"] == pytest.approx(77.6, abs=0.05)
  assert 100 * value["natural"]["top1"] == pytest.approx(86.69, abs=0.005)
  assert 100 * value["specialized"]["top1"] == pytest.approx(87.00, abs=0.005)
  assert 100 * value["structured"]["top1"] == pytest.approx(65.03, abs=0.005)
  assert [value[g]["of"] for g in (*vtab.GROUPS, "mean")] == [7, 4, 8, 19]
  assert "over 19 of 19 tasks" in table.text()


def test_examples_of_a_task_give_it_no_weight(tmp_path, ended):
  table = VtabTable(str(tmp_path))
  table.add(*ended("dtd", 0.25, num_examples=10_000))
  table.add(*ended("pets", 0.75, num_examples=10))
  table.write()
  assert written(tmp_path)["mean"]["top1"] == 0.5


def test_tasks_that_are_not_measured_are_in_no_mean(tmp_path, ended):
  table = VtabTable(str(tmp_path))
  table.add(*ended("dtd", 0.25))
  table.add(*ended("pets", None, status="diverged"))
  table.set("sun397", ABSENT)
  table.set("kitti", FAILED)
  table.write()
  value = written(tmp_path)
  assert value["natural"] == {"top1": 0.25, "over": 1, "of": 7}
  assert value["mean"] == {"top1": 0.25, "over": 1, "of": 19}
  assert value["structured"] == {"top1": None, "over": 0, "of": 8}
  assert {row["task"]: row["status"] for row in value["tasks"]} == {
    **dict.fromkeys(vtab.TASKS, "not run"),
    "dtd": "finished",
    "pets": "diverged",
    "sun397": "absent",
    "kitti": "failed",
  }
  text = (tmp_path / "vtab.md").read_text()
  assert text == table.text() + "\n"
  lines = {line.split("|")[1].strip(): line for line in text.splitlines()}
  assert "25.00%" in lines["DTD"] and "absent" in lines["Sun397"]
  assert "over 1 of 7 tasks" in lines["Natural mean"]
  assert "over 1 of 19 tasks" in lines["Mean"]
  assert "%" not in lines["Structured mean"]


def test_a_row_says_what_was_measured(tmp_path, ended):
  table = VtabTable(str(tmp_path))
  table.add(*ended("dtd", 0.25))
  table.write()
  (row,) = (r for r in written(tmp_path)["tasks"] if r["task"] == "dtd")
  assert row == {
    "task": "dtd",
    "group": "natural",
    "status": "finished",
    "dataset": "dtd",
    "split": "test",
    "top1": 0.25,
    "num_examples": 100,
  }
