"""The train command from its start to its report."""

import json
import os
import shutil
import signal
import time

import jax
import numpy as np
import pytest

from tests import experiments
from vit_jax import records
from vit_jax.config import defaults
from vit_jax.errors import UserError
from vit_jax.evaluate import evaluate
from vit_jax.pretrained import initial_model, reading
from vit_jax.report import formatting, load, overview, render
from vit_jax.rundir import goodput, workdir_lock
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.workdir_lock import WorkdirLock
from vit_jax.train import train
from vit_jax.training.experiment import Experiment


def lines(workdir):
  return records.read_lines(workdir / "metrics.jsonl")


def losses(workdir):
  return {
    x["step"]: x["train/loss"] for x in lines(workdir) if "train/loss" in x
  }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """The workdir of a run of six steps."""
  workdir = tmp_path_factory.mktemp("finished")
  assert train(experiments.config(ema_decay=0.9), str(workdir)) == 0
  return workdir


@pytest.mark.slow
@pytest.mark.parametrize(
  "family", [experiments.RESNET, experiments.HYBRID], ids=["resnet", "hybrid"]
)
def test_convolutional_networks_learn(family, tmp_path):
  config = experiments.config(total_steps=20, log_every_steps=10, **family)
  assert train(config, str(tmp_path)) == 0
  first, last = (losses(tmp_path)[step] for step in (1, 20))
  assert first == pytest.approx(np.log(4), rel=1e-3)
  assert last < 0.8 * first


def test_every_logged_step_has_its_metrics(finished):
  trained = [x for x in lines(finished) if "train/loss" in x]
  assert [x["step"] for x in trained] == [1, 2, 3, 4, 5, 6]
  assert set(trained[0]) == {
    "step",
    "train/loss",
    "train/top1",
    "train/learning_rate",
    "train/grad_norm",
    "perf/images_per_second",
    "perf/data_wait_fraction",
  }


def test_no_line_claims_more_images_than_a_step_could_compute(
  tmp_path, monkeypatch
):
  """Nor do those before a save, an evaluation or the end."""
  compiled = Experiment.compile

  def slow(parts, options=None):
    step = compiled(parts, options)

    def run(*args):
      time.sleep(0.05)
      return jax.block_until_ready(step(*args))

    return run

  monkeypatch.setattr(Experiment, "compile", slow)
  assert train(experiments.config(), str(tmp_path)) == 0
  trained = [line for line in lines(tmp_path) if "train/loss" in line]
  assert [line["step"] for line in trained] == [1, 2, 3, 4, 5, 6]
  assert max(line["perf/images_per_second"] for line in trained) < 16 / 0.05


def test_a_line_has_the_means_since_the_one_before(finished, tmp_path):
  config = experiments.config(ema_decay=0.9, log_every_steps=4)
  train(config, str(tmp_path))
  each = losses(finished)
  assert losses(tmp_path) == {
    1: each[1],
    4: pytest.approx(np.mean([each[2], each[3], each[4]]), rel=1e-6),
    6: pytest.approx(np.mean([each[5], each[6]]), rel=1e-6),
  }
  before = losses(tmp_path)
  for step in (4, 6):
    shutil.rmtree(tmp_path / "checkpoints" / str(step))
  train(config, str(tmp_path))  # From step 2, within an interval.
  assert losses(tmp_path) == before


def test_the_account_of_seconds_does_not_wait_for_a_line(tmp_path, monkeypatch):
  monkeypatch.setattr(goodput, "_SECONDS_BETWEEN_MARKS", 0.0)
  train(experiments.config(log_every_steps=100), str(tmp_path))
  marks = json.loads((tmp_path / goodput.FILE).read_text())["marks"]
  assert {step for step, _ in marks} >= {1, 2, 3, 4, 5, 6}


def steps_kept(workdir):
  return {int(path.name) for path in (workdir / "checkpoints").glob("[0-9]*")}


def best_by_loss(workdir):
  found = {
    x["step"]: x["eval/test/loss"]
    for x in lines(workdir)
    if "eval/test/loss" in x
  }
  return min(found, key=found.get)


def test_the_best_checkpoint_is_kept_beside_the_newest(tmp_path):
  config = experiments.config(
    total_steps=8,
    schedule__base_lr=0.3,  # So much that the loss rises again.
    schedule__decay="constant",
    evals__test__every_steps=1,
    checkpoint__every_steps=8,
    checkpoint__keep_last=1,
    checkpoint__keep_best="test/loss",
  )
  train(config, str(tmp_path))
  best = best_by_loss(tmp_path)
  assert best < 8
  assert steps_kept(tmp_path) == {best, 8}
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert (summary["best"]["step"], summary["best"]["since"]) == (best, 8 - best)
  assert reading.locate(f"{tmp_path}/best") == (tmp_path, best)
  measured = evaluate(config, f"{tmp_path}/best")
  assert measured["eval/test/loss"] == pytest.approx(
    summary["best"]["value"], rel=1e-6
  )
  # Killed before the last save: it goes on from the best, which stays.
  before = lines(tmp_path)
  shutil.rmtree(tmp_path / "checkpoints" / "8")
  train(config, str(tmp_path))
  assert steps_kept(tmp_path) == {best, 8}
  assert losses(tmp_path) == {
    x["step"]: x["train/loss"] for x in before if "train/loss" in x
  }


def test_a_run_that_gets_no_better_ends_early_and_stays_ended(tmp_path, capsys):
  config = experiments.config(
    schedule__base_lr=1e-60,  # No float32: nothing changes.
    evals__test__every_steps=1,
    checkpoint__keep_best="test/top1",
    early_stopping=3,
  )
  for _ in range(2):
    assert train(config, str(tmp_path)) == 0
    assert (
      "3 evaluations after step 1 were not better" in capsys.readouterr().out
    )
    assert lines(tmp_path)[-1]["step"] == 4
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["step"]) == ("finished", 4)


def test_a_run_that_ended_early_keeps_what_it_was_trained_with(
  tmp_path, monkeypatch, capsys
):
  changes = {
    "schedule__base_lr": 1e-60,
    "evals__test__every_steps": 1,
    "checkpoint__keep_best": "test/top1",
    "early_stopping": 2,
  }
  assert train(experiments.config(**changes), str(tmp_path)) == 0
  before = json.loads((tmp_path / "config.json").read_text())
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["step"] == 3
  monkeypatch.setattr(Experiment, "compile", None)
  again = {"total_steps": 70, "objective__loss": "sigmoid"}
  allowed = "total_steps,objective.loss"
  config = experiments.config(**changes | again, allow_change=allowed)
  capsys.readouterr()
  assert train(config, str(tmp_path)) == 0
  said = capsys.readouterr().out
  assert "at step 3, where it was stopped early; nothing" in said
  assert "70 steps" not in said
  after = json.loads((tmp_path / "config.json").read_text())
  assert after == before | {"allow_change": allowed}
  found = json.loads((tmp_path / "summary.json").read_text())
  assert found["changed_keys"] == []
  for key in ("step", "total_steps", "status", "objective", "metrics"):
    assert found[key] == summary[key]


def test_where_the_best_checkpoint_is_gone_the_next_best_is_kept(tmp_path):
  changes = {
    "total_steps": 8,
    "schedule__base_lr": 0.3,
    "schedule__decay": "constant",
    "evals__test__every_steps": 1,
    "checkpoint__every_steps": 1,
    "checkpoint__keep_last": 8,
  }
  train(experiments.config(**changes), str(tmp_path))
  losses_at = {
    x["step"]: x["eval/test/loss"]
    for x in lines(tmp_path)
    if "eval/test/loss" in x
  }
  best, second, *_ = sorted(losses_at, key=losses_at.get)
  for step in {best, 8}:
    shutil.rmtree(tmp_path / "checkpoints" / str(step))
  changes |= {"checkpoint__keep_last": 1, "checkpoint__keep_best": "test/loss"}
  train(experiments.config(**changes), str(tmp_path))
  assert steps_kept(tmp_path) == {second, 8}
  assert reading.locate(f"{tmp_path}/best")[1] == second


def test_top5_that_is_not_measured_cannot_be_the_best(tmp_path):
  config = experiments.config(checkpoint__keep_best="test/top5")
  with pytest.raises(UserError, match="no top-5 of five classes or fewer"):
    train(config, str(tmp_path))


def test_a_run_without_it_has_no_best_checkpoint(finished):
  with pytest.raises(UserError, match="has no best checkpoint"):
    reading.locate(f"{finished}/best")


def test_asking_for_a_trace_ends_no_run_before_or_after_its_steps(
  tmp_path, monkeypatch
):
  def asking(call):
    def wrapped(*arguments, **options):
      os.kill(os.getpid(), signal.SIGUSR1)
      return call(*arguments, **options)

    return wrapped

  for owner, name in [
    (initial_model, "keep_attention"),
    (Experiment, "compile"),
    (RunDirectory, "finish"),
    (render, "write_report"),
  ]:
    monkeypatch.setattr(owner, name, asking(getattr(owner, name)))
  heard = []
  before = signal.signal(signal.SIGUSR1, lambda *unused: heard.append(1))
  try:
    assert train(experiments.config(total_steps=2), str(tmp_path)) == 0
    assert not heard
    os.kill(os.getpid(), signal.SIGUSR1)
    assert heard
  finally:
    signal.signal(signal.SIGUSR1, before)
  assert not (tmp_path / "profiles").exists()


def test_an_evaluation_is_a_line_of_its_own(finished):
  evaluated = [x for x in lines(finished) if "train/loss" not in x]
  assert [x["step"] for x in evaluated] == [3, 6]
  assert set(evaluated[0]) == {
    "step",
    *(f"eval/test/{name}" for name in ("top1", "loss", "num_examples")),
  }


def test_the_workdir_holds_what_the_readme_says(finished):
  names = {path.name for path in finished.iterdir()}
  assert names >= {
    "config.json",
    "metrics.jsonl",
    "summary.json",
    "checkpoints",
    "evaluations",
    "report",
  }
  assert any(name.startswith("events.out.tfevents") for name in names)
  assert not any("partial" in name or "writable" in name for name in names)


def test_the_summary_has_the_last_value_of_every_metric(finished):
  summary = json.loads((finished / "summary.json").read_text())
  assert summary["status"] == "finished"
  assert (summary["step"], summary["total_steps"]) == (6, 6)
  last = {}
  for line in lines(finished):
    last.update(line)
  assert summary["metrics"] == {k: v for k, v in last.items() if k != "step"}
  assert {"jax", "flax", "vit_jax", "python"} <= set(summary["versions"])
  timed = {"total", "start", "compile", "step", "data", "save", "evaluate"}
  assert {f"{name}_seconds" for name in timed} <= set(summary["timings"])


def test_a_finished_run_that_is_started_again_changes_nothing(
  finished, monkeypatch, capsys
):
  """Nor is a step compiled for it, also where the run is to be shorter."""
  monkeypatch.setattr(Experiment, "compile", None)
  before = (finished / "metrics.jsonl").read_text()
  shorter = {"total_steps": 4, "allow_change": "total_steps"}
  for changes in (shorter, {}):
    config = experiments.config(ema_decay=0.9, **changes)
    assert train(config, str(finished)) == 0
    assert (finished / "metrics.jsonl").read_text() == before
  assert "at step 6 of 4 already" in capsys.readouterr().out


def test_a_finished_run_keeps_the_settings_that_it_was_trained_with(
  finished, tmp_path
):
  workdir = shutil.copytree(finished, tmp_path / "run")
  before = json.loads((workdir / "config.json").read_text())
  facts = json.loads((workdir / "summary.json").read_text())
  config = experiments.config(
    ema_decay=0.9,
    total_steps=4,
    schedule__base_lr=1.0,
    objective__loss="sigmoid",
    evals__test__every_steps=1,
    evals__more=defaults.default_eval(type="classification"),
    log__name="again",
    allow_change="total_steps,schedule.base_lr,objective.loss",
  )
  assert train(config, str(workdir)) == 0
  after = json.loads((workdir / "config.json").read_text())
  free = {"evals", "log", "allow_change"}
  assert {key for key in before if before[key] != after[key]} == free
  assert set(after["evals"]) == {"test", "more"}
  assert after["evals"]["test"]["every_steps"] == 1
  assert after["log"]["name"] == "again"
  found = json.loads((workdir / "summary.json").read_text())
  for key in ("total_steps", "model", "objective", "num_examples"):
    assert found[key] == facts[key]


def test_an_evaluator_that_changes_is_told_and_recorded(
  finished, tmp_path, caplog
):
  workdir = shutil.copytree(finished, tmp_path / "run")
  config = experiments.config(ema_decay=0.9, evals__test__split="train")
  assert train(config, str(workdir)) == 0
  assert 'evals.test.split: was "test", is "train"' in caplog.text
  summary = json.loads((workdir / "summary.json").read_text())
  assert summary["changed_keys"] == ["evals.test.split"]


@pytest.mark.parametrize("status", ["preempted", "running", None])
def test_a_run_under_way_is_not_made_shorter_than_it_is(
  finished, tmp_path, status
):
  """It would end without the evaluation at its end."""
  workdir = tmp_path / "run"
  shutil.copytree(finished, workdir)
  summary = json.loads((workdir / "summary.json").read_text())
  if status is None:
    (workdir / "summary.json").unlink()
  else:
    records.write_json(workdir / "summary.json", summary | {"status": status})
  changes = {"ema_decay": 0.9, "allow_change": "total_steps"}
  before = {p: p.stat().st_mtime_ns for p in workdir.rglob("*") if p.is_file()}
  with pytest.raises(UserError, match=r"is at step 6 .* be 4 steps"):
    train(experiments.config(total_steps=4, **changes), str(workdir))
  after = {p: p.stat().st_mtime_ns for p in workdir.rglob("*") if p.is_file()}
  assert after == before


def test_a_report_that_cannot_be_written_is_no_failure(tmp_path, capsys):
  (tmp_path / "report").write_text("in the way")
  assert train(experiments.config(total_steps=2), str(tmp_path)) == 0
  assert "report: not written (" in capsys.readouterr().out
  assert json.loads((tmp_path / "summary.json").read_text())["step"] == 2


def test_a_job_that_lost_its_workdir_leaves_the_records_alone(
  tmp_path, monkeypatch
):
  """The job that has taken it over writes there."""
  checked, calls = WorkdirLock.check, []

  def check(lock):
    calls.append(lock)
    if len(calls) == 3:
      holder = json.loads((tmp_path / "run.lock").read_text())
      (tmp_path / "run.lock").write_text(
        json.dumps(holder | {"token": "other"})
      )
      for name in ("summary.json", "attempts.json"):
        (tmp_path / name).write_text("of the other job")
      monkeypatch.setattr(workdir_lock, "DEAD_SECONDS", 0)
    checked(lock)

  monkeypatch.setattr(WorkdirLock, "check", check)
  with pytest.raises(UserError, match="taken over by"):
    train(experiments.config(), str(tmp_path))
  for name in ("summary.json", "attempts.json"):
    assert (tmp_path / name).read_text() == "of the other job"
  assert not (tmp_path / "report").exists()


def test_evaluating_its_checkpoint_gives_what_training_logged(finished):
  logged = lines(finished)[-1]
  alone = evaluate(experiments.config(ema_decay=0.9), str(finished))
  assert alone.keys() == logged.keys()
  for name, value in logged.items():
    assert alone[name] == pytest.approx(value, rel=1e-6)


@pytest.mark.slow
def test_a_longer_run_that_goes_on_equals_one_that_never_stopped(tmp_path):
  whole, parts = tmp_path / "whole", tmp_path / "parts"
  schedule = {"schedule__decay": "constant", "model__dropout_rate": 0.1}
  train(experiments.config(total_steps=7, **schedule), str(whole))
  train(experiments.config(total_steps=3, **schedule), str(parts))
  longer = experiments.config(
    total_steps=7, allow_change="total_steps", **schedule
  )
  train(longer, str(parts))
  assert losses(parts) == losses(whole)


def test_epochs_and_flops_count_the_images_of_all_batches(tmp_path):
  """Two of 16 and one of 32: one epoch of 64 images, and two of its FLOPs."""
  common = {"evals": {}, "checkpoint__every_steps": 1}
  train(experiments.config(total_steps=2, **common), str(tmp_path))
  longer = experiments.config(
    total_steps=3,
    train__batch_size=32,
    allow_change="total_steps,train.batch_size",
    **common,
  )
  for _ in range(2):  # The second time all is done already.
    assert train(longer, str(tmp_path)) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["images_seen"] == 64
    assert summary["changed_keys"] == ["total_steps", "train.batch_size"]
    shown = overview.facts(load.load_run(tmp_path))["Optimisation"]
    assert (shown["steps"], shown["epochs"]) == ("3", "1")
    flops = 2.0 * summary["flops_per_step"]
    assert shown["computed"] == formatting.flops(flops)


@pytest.mark.slow
def test_a_run_that_goes_on_on_another_mesh_has_the_same_losses(tmp_path):
  whole, parts = tmp_path / "whole", tmp_path / "parts"
  constant = {"schedule__decay": "constant", "optimizer__name": "sgd"}
  train(experiments.config(total_steps=6, **constant), str(whole))
  train(experiments.config(total_steps=4, **constant), str(parts))
  other = experiments.config(
    total_steps=6,
    allow_change="total_steps",
    mesh__data=2,
    mesh__tensor=2,
    **constant,
  )
  train(other, str(parts))
  assert losses(parts) == pytest.approx(losses(whole), rel=1e-5)


def test_a_run_starts_from_another_ones_average(finished, tmp_path):
  config = experiments.config(init_from=str(finished), schedule__base_lr=1e-9)
  train(config, str(tmp_path))
  started = [x for x in lines(tmp_path) if "eval/test/loss" in x][0]
  given = lines(finished)[-1]
  np.testing.assert_allclose(
    started["eval/test/loss"], given["eval/test/loss"], rtol=1e-4
  )


def test_a_workdir_of_another_run_is_refused_by_its_keys(finished):
  before = sorted(finished.rglob("*"))
  with pytest.raises(UserError, match="ema_decay: was 0.9, is unset"):
    train(experiments.config(seed=3), str(finished))
  assert sorted(finished.rglob("*")) == before


def test_a_loss_that_is_not_finite_stops_the_run_within_two_steps(
  tmp_path, capsys
):
  config = experiments.config(
    total_steps=50,
    schedule__base_lr=1e30,
    schedule__warmup_steps=10,
    schedule__decay="constant",
    optimizer__name="sgd",
    optimizer__grad_clip_norm=None,
  )
  (tmp_path / "report").mkdir()
  (tmp_path / "report/index.html").write_text("of an earlier start")
  with pytest.raises(UserError) as error:
    train(config, str(tmp_path))
  message = str(error.value)
  assert "The first tensor that is not finite is" in message
  assert "config.schedule.base_lr" in message
  stopped = int(message.split("at step ")[1].split(":")[0])
  logged = lines(tmp_path)
  assert logged[-1]["step"] == stopped - 1
  assert all(np.isfinite(x["train/loss"]) for x in logged if "train/loss" in x)
  saved = [int(p.name) for p in (tmp_path / "checkpoints").iterdir()]
  assert all(step < stopped for step in saved)
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["status"] == "diverged"
  page = (tmp_path / "report/index.html").read_text()
  assert "stopped: loss or gradient not finite" in page
  assert f"report: {tmp_path}/report/index.html" in capsys.readouterr().out


@pytest.mark.parametrize("is_in_the_way", [False, True])
def test_an_error_that_ends_a_run_is_told_whatever_its_report_does(
  tmp_path, monkeypatch, capsys, is_in_the_way
):
  if is_in_the_way:
    (tmp_path / "report").write_text("mine")
  save, steps = RunDirectory.save, []

  def failing(directory, step, *others, **options):
    steps.append(step)
    if len(steps) == 2:
      raise OSError("the disk is gone")
    save(directory, step, *others, **options)

  monkeypatch.setattr(RunDirectory, "save", failing)
  with pytest.raises(OSError, match="the disk is gone"):
    train(experiments.config(), str(tmp_path))
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["status"] == "failed"
  if is_in_the_way:
    assert "report: not written (" in capsys.readouterr().out
  else:
    page = (tmp_path / "report/index.html").read_text()
    assert "</span> failed, step 4 of 6" in page


def test_a_run_that_is_refused_leaves_the_report_as_it_is(finished):
  page = finished / "report/index.html"
  before = page.stat().st_mtime_ns
  with pytest.raises(UserError, match="holds checkpoints of another run"):
    train(experiments.config(seed=3), str(finished))
  assert page.stat().st_mtime_ns == before


def test_a_mistake_after_the_end_leaves_a_run_finished(finished):
  kept = [finished / "report/index.html", finished / "summary.json"]
  before = [path.read_bytes() for path in kept]
  with pytest.raises(UserError, match="no split 'nosuch'"):
    train(
      experiments.config(ema_decay=0.9, evals__test__split="nosuch"),
      str(finished),
    )
  assert [path.read_bytes() for path in kept] == before


def test_classes_beyond_the_models_are_refused(tmp_path):
  with pytest.raises(UserError, match="model.num_classes"):
    train(experiments.config(model__num_classes=2), str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_refused(tmp_path):
  tmp_path.chmod(0o500)
  with pytest.raises(UserError, match="cannot be written to"):
    train(experiments.config(), str(tmp_path / "run"))


def test_a_workdir_that_cannot_be_made_is_refused(tmp_path):
  (tmp_path / "file").write_text("mine")
  with pytest.raises(UserError, match="cannot be written to") as error:
    train(experiments.config(), str(tmp_path / "file" / "run"))
  assert "fix that" in str(error.value)
  assert "another --workdir, in which the run begins at step 0" in str(
    error.value
  )
  assert (tmp_path / "file").read_text() == "mine"
