"""What a workdir says of the training of a checkpoint."""

import json

import pytest

from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.weights import training_record

CONFIG = schema.Config(
  total_steps=20,
  evals={"val": schema.ClassificationEval(type="classification", split="val")},
)


@pytest.fixture
def workdir(tmp_path):
  """A run of 20 steps, evaluated at 10 and 20."""
  (tmp_path / "config.json").write_text(resolve.dump(CONFIG))
  lines = [
    {"step": 10, "train/loss": 2.0, "eval/val/top1": 0.5},
    {"step": 10, "eval/val/top5": None},
    {"step": 20, "eval/val/top1": 0.75, "eval/val/num_examples": 1200},
    {"step": 20, "fewshot/digits/10shot": 0.9, "fewshot/digits/5shot": 0.8},
    {"step": 20, "eval/val/top5": 1.0, "fewshot/digits/5shot_std": 0.01},
  ]
  text = "".join(json.dumps(line) + "\n" for line in lines)
  (tmp_path / "metrics.jsonl").write_text(text)
  # The last value of every metric, of whichever step.
  values = {"eval/val/top5": 1.0, "fewshot/digits/1shot": 0.25}
  summary = {"step": 20, "devices": "2 x cpu", "metrics": values}
  (tmp_path / "summary.json").write_text(json.dumps(summary))
  return tmp_path


def titles(training) -> list[tuple[str, float]]:
  return [
    (result.title.split(" of")[0], result.value)
    for result in training_record.results(training)
  ]


def test_results_are_those_of_the_step(workdir):
  training = training_record.read(workdir, 20)
  assert training.config == CONFIG
  assert training.devices == "2 x cpu"
  assert titles(training) == [
    ("top-1 accuracy", 0.75),
    ("top-5 accuracy", 1.0),
    ("5-shot linear accuracy", 0.8),
    ("10-shot linear accuracy", 0.9),
  ]


def test_other_steps_do_not_count(workdir):
  training = training_record.read(workdir, 10)
  assert titles(training) == [("top-1 accuracy", 0.5)]
  assert training.devices == ""
  assert titles(training_record.read(workdir, 15)) == []


def test_results_say_on_what(workdir):
  result = next(training_record.results(training_record.read(workdir, 20)))
  assert (result.dataset, result.split) == ("digits", "val")
  assert result.detail == "1,200 images"


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_summary_that_is_torn_is_done_without(workdir, text):
  (workdir / "summary.json").write_text(text)
  assert titles(training_record.read(workdir, 10)) == [("top-1 accuracy", 0.5)]


def test_workdir_that_no_run_has_left_says_nothing(workdir):
  (workdir / "metrics.jsonl").unlink()
  assert training_record.read(workdir, 20) is None


def test_config_of_another_version_is_refused(workdir):
  (workdir / "config.json").write_text('{"modle": {}}')
  with pytest.raises(UserError, match="modle"):
    training_record.read(workdir, 20)


def test_errors_of_numbers_are_results_and_no_shares(workdir):
  config = schema.Config(
    total_steps=20, evals={"val": schema.RegressionEval(type="regression")}
  )
  (workdir / "config.json").write_text(resolve.dump(config))
  line = {"step": 20, "eval/val/mae": 2.5, "eval/val/rmse": 3.125}
  line |= {"eval/val/r2": 0.5, "eval/val/num_examples": 1200}
  line |= {"eval/val/age/rmse": 3.125}
  (workdir / "metrics.jsonl").write_text(json.dumps(line) + "\n")
  results = list(training_record.results(training_record.read(workdir, 20)))
  assert [(one.kind, one.text) for one in results] == [
    ("rmse", "3.125"),
    ("mae", "2.5"),
    ("r_squared", "0.5"),
  ]
  assert results[0].detail == "1,200 images"
