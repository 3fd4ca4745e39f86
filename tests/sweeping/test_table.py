"""What a sweep leaves behind: sweep.json and sweep.md."""

import json

import pytest

from tests import experiments
from vit_jax import records
from vit_jax.config import resolve
from vit_jax.errors import UserError
from vit_jax.sweeping import plan
from vit_jax.sweeping.table import Table


@pytest.fixture
def config():
  return experiments.config(sweep__learning_rates=(0.1, 0.3, 0.9))


@pytest.fixture
def ended(config, tmp_path):
  """A function that pretends that the run of a rate has ended."""

  def make(rate, top1=None, loss=None, status="finished"):
    run = plan.trial(config, rate, str(tmp_path))
    write_run(run)
    metrics = {"eval/dev/top1": top1, "eval/dev/loss": loss}
    if status != "finished":
      metrics = {"train/loss": 3.0}
    records.write_json(
      run.workdir / "summary.json", {"status": status, "metrics": metrics}
    )
    return rate, run

  return make


def write_run(run):
  run.workdir.mkdir()
  records.write_text(run.workdir / "experiment.json", resolve.dump(run.config))


def finished(config, rate, workdir, status="finished"):
  run = plan.final(config, rate, str(workdir))
  run.workdir.mkdir()
  records.write_json(
    run.workdir / "summary.json",
    {"status": status, "metrics": {"eval/test/top1": 0.875}},
  )
  return run


def test_the_best_on_dev_is_chosen_and_alone_has_a_test_score(
  config, ended, tmp_path
):
  table = Table(config, str(tmp_path))
  table.add(*ended(0.1, 0.5, 1.0))
  table.add(*ended(0.3, 0.75, 0.8))
  table.add(*ended(0.9, status="diverged"))
  assert table.best() == 0.3
  table.finish(finished(config, 0.3, tmp_path))
  assert table.text().splitlines()[:5] == [
    "| learning rate | dev top-1 | chosen | test top-1 |",
    "|---------------|-----------|--------|------------|",
    "| 0.1           | 50.00%    |        |            |",
    "| 0.3           | 75.00%    | yes    | 87.50%     |",
    "| 0.9           | diverged  |        |            |",
  ]
  assert (tmp_path / "sweep.md").read_text() == table.text() + "\n"
  saved = json.loads((tmp_path / "sweep.json").read_text())
  assert (saved["chosen"], saved["test_top1"]) == (0.3, 0.875)
  assert saved["status"] == "finished"
  assert saved["dev_split"] == "train[90%:]"
  assert [row["chosen"] for row in saved["runs"]] == [False, True, False]
  assert [row["dev_top1"] for row in saved["runs"]] == [0.5, 0.75, None]


@pytest.mark.parametrize("other_loss", [0.5, None])
def test_among_equals_the_lower_loss_is_chosen(
  config, ended, tmp_path, other_loss
):
  losses = {0.1: 0.8, 0.3: 0.4, 0.9: other_loss}
  table = Table(config, str(tmp_path))
  for rate, loss in losses.items():
    table.add(*ended(rate, 0.5, loss))
  assert table.best() == 0.3


def test_rates_measured_before_are_told_and_not_chosen(config, ended, tmp_path):
  ended(0.1, 0.5, 1.0)
  ended(0.3, 0.75, 0.8)
  (tmp_path / "lr_0.9").mkdir()  # Not begun.
  other = plan.trial(experiments.config(model__depth=3), 0.5, str(tmp_path))
  write_run(other)
  records.write_json(
    other.workdir / "summary.json",
    {"status": "finished", "metrics": {"eval/dev/top1": 1.0}},
  )
  swept = experiments.config(sweep__learning_rates=(0.1, 0.7))
  table = Table(swept, str(tmp_path))
  table.add(0.1, plan.trial(swept, 0.1, str(tmp_path)))
  table.add(*ended(0.7, 0.25, 1.0))
  assert table.best() == 0.1
  assert table.text().splitlines()[-1] == (
    "Measured here before and not compared now: 0.3 (75.00%)."
  )
  saved = json.loads((tmp_path / "sweep.json").read_text())
  assert [row["workdir"] for row in saved["earlier_runs"]] == ["lr_0.3"]


@pytest.mark.parametrize(
  ("top1", "line"),
  [
    (
      {0.1: 0.9, 0.3: 0.75, 0.9: 0.5},
      "The chosen rate is the lowest tried; a lower one may do better.",
    ),
    (
      {0.1: 0.5, 0.3: 0.75, 0.9: 0.9},
      "The chosen rate is the highest tried; a higher one may do better.",
    ),
    ({0.1: 0.5, 0.3: 0.75, 0.9: 0.5}, None),
    ({0.3: 0.75, 0.9: None}, "The chosen rate is the lowest tried"),
    ({0.1: 0.5, 0.3: 0.75, 0.9: None}, None),
    ({0.3: 0.75}, None),
  ],
)
def test_a_best_rate_at_an_end_of_those_tried_is_told(
  config, ended, tmp_path, top1, line
):
  table = Table(config, str(tmp_path))
  for rate, value in top1.items():
    status = "finished" if value else "diverged"
    table.add(*ended(rate, value, value, status))
  assert "may do better" not in table.text()
  table.best()
  last = table.text().splitlines()[-1]
  if line is None:
    assert "may do better" not in last
  else:
    assert last.startswith(line)


def test_the_table_is_there_before_the_sweep_ends(config, ended, tmp_path):
  table = Table(config, str(tmp_path))
  table.add(*ended(0.1, 0.5, 1.0))
  saved = json.loads((tmp_path / "sweep.json").read_text())
  assert saved["status"] == "running"
  assert "50.00%" in (tmp_path / "sweep.md").read_text()


def test_rates_that_all_diverge_are_a_sentence(config, ended, tmp_path):
  table = Table(config, str(tmp_path))
  table.add(*ended(0.1, status="diverged"))
  with pytest.raises(UserError, match="try lower ones"):
    table.best()


def test_a_last_run_that_diverges_is_a_sentence(config, ended, tmp_path):
  table = Table(config, str(tmp_path))
  table.add(*ended(0.1, 0.5, 1.0))
  table.best()
  with pytest.raises(UserError, match="infinite or NaN"):
    table.finish(finished(config, 0.1, tmp_path, status="diverged"))


def test_of_numbers_the_rate_of_the_least_error_is_chosen(tmp_path):
  config = experiments.config(
    sweep__learning_rates=(0.1, 0.3, 0.9), **experiments.REGRESSION
  )
  table = Table(config, str(tmp_path))
  for rate, error in ((0.1, 4.5), (0.3, 2.25), (0.9, None)):
    run = plan.trial(config, rate, str(tmp_path))
    assert run.config.evals["dev"].split == "train[90%:]"
    run.workdir.mkdir()
    metrics = {"eval/dev/rmse": error, "eval/dev/r2": 0.5}
    records.write_json(
      run.workdir / "summary.json", {"status": "finished", "metrics": metrics}
    )
    table.add(rate, run)
  assert table.best() == 0.3
  run = plan.final(config, 0.3, str(tmp_path))
  run.workdir.mkdir()
  records.write_json(
    run.workdir / "summary.json",
    {"status": "finished", "metrics": {"eval/test/rmse": 2.5}},
  )
  table.finish(run)
  assert table.text().splitlines()[:4] == [
    "| learning rate | dev RMSE | chosen | test RMSE |",
    "|---------------|----------|--------|-----------|",
    "| 0.1           | 4.5      |        |           |",
    "| 0.3           | 2.25     | yes    | 2.5       |",
  ]
  saved = json.loads((tmp_path / "sweep.json").read_text())
  assert (saved["chosen"], saved["test_rmse"]) == (0.3, 2.5)
  assert [row["dev_rmse"] for row in saved["runs"]] == [4.5, 2.25, None]
