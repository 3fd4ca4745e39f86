"""Runs in processes of their own: ended ones stay, stops are handed on.

A stand-in for `vit_jax.train` ends as it is told, without importing jax.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests import experiments
from vit_jax.config import resolve
from vit_jax.errors import UserError
from vit_jax.sweeping import plan, runner
from vit_jax.sweeping.runner import Runner, summary

# `python -m vit_jax.train --config=... --workdir=DIR`, as far as the sweep can
# see: what DIR/order says comes to pass, and the calls are counted.
STAND_IN = """\
#!{python}
import json, pathlib, signal, sys, time
workdir = pathlib.Path(sys.argv[-1].removeprefix("--workdir="))
config = json.loads(pathlib.Path(sys.argv[-2].split("=", 1)[1]).read_text())
calls = workdir / "calls"
calls.write_text((calls.read_text() if calls.exists() else "") + "x")
def stop(number, frame):
  sys.exit({{signal.SIGTERM: 42, signal.SIGINT: 130}}[number])
order = (workdir.parent / "order").read_text()
if order == "wait":
  signal.signal(signal.SIGTERM, stop)
  signal.signal(signal.SIGINT, stop)
  (workdir / "waiting").write_text("")
  time.sleep(600)
  sys.exit(9)
if order == "deaf":
  (workdir / "waiting").write_text("")
  time.sleep(600)
if order == "killed":
  signal.raise_signal(signal.SIGKILL)
status, code = order.split()
metrics = {{"base_lr": config["schedule"]["base_lr"]}}
(workdir / "summary.json").write_text(
  json.dumps({{"status": status, "metrics": metrics}})
)
sys.exit(int(code))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
  """A function that runs a rate and says how its process shall end."""
  stand_in = tmp_path / "python"
  stand_in.write_text(STAND_IN.format(python=sys.executable))
  stand_in.chmod(0o755)
  monkeypatch.setattr(sys, "executable", str(stand_in))

  def call(order, rate=0.3, **changes):
    (tmp_path / "order").write_text(order)
    config = experiments.config(sweep__learning_rates=(0.1, 0.3), **changes)
    with Runner() as start:
      return start(plan.trial(config, rate, str(tmp_path)))

  return call


def calls(tmp_path):
  return len((tmp_path / "lr_0.3" / "calls").read_text())


def test_a_trial_that_fails_names_the_keys_of_its_splits(run):
  """It speaks of an evaluator `dev`, which the person's config lacks."""
  with pytest.raises(UserError) as error:
    run("failed 1")
  for words in (
    "config.sweep.train_split ('train[:90%]')",
    "config.evals.dev measures config.sweep.dev_split ('train[90%:]')",
    "set both",
  ):
    assert words in str(error.value)


def test_the_process_gets_the_config_of_its_run(run, tmp_path):
  assert run("finished 0") == 0
  config = experiments.config(sweep__learning_rates=(0.1, 0.3))
  trial = plan.trial(config, 0.3, str(tmp_path))
  assert summary(trial)["metrics"]["base_lr"] == 0.3
  written = (tmp_path / "lr_0.3" / "experiment.json").read_text()
  assert resolve.load(written) == trial.config


@pytest.mark.parametrize("order", ["finished 0", "diverged 1"])
def test_a_run_that_has_ended_is_not_started_again(run, tmp_path, order):
  assert run(order) == run(order) == 0
  assert calls(tmp_path) == 1


@pytest.mark.parametrize(
  ("order", "code"),
  [("preempted 42", 42), ("preempted 143", 42), ("interrupted 130", 130)],
)
def test_a_run_that_was_stopped_stops_the_sweep_and_goes_on_later(
  run, tmp_path, order, code
):
  assert run(order) == code
  assert run("finished 0") == 0
  assert calls(tmp_path) == 2


@pytest.mark.parametrize(
  "damaged", [b'{"stat', b"\xff\xfe", b"[]", b'{"status": "finished"}']
)
def test_a_run_whose_summary_is_damaged_is_started_again(
  run, tmp_path, damaged
):
  run("finished 0")
  (tmp_path / "lr_0.3" / "summary.json").write_bytes(damaged)
  assert run("finished 0") == 0
  assert calls(tmp_path) == 2


@pytest.mark.parametrize(
  ("damaged", "reason"),
  [
    (b'{"seed": 0, "mo', "line 1 column"),
    (b"\xff\xfe", "codec can't decode"),
    (b"[]", "no JSON object"),
  ],
)
def test_a_directory_whose_experiment_cannot_be_read_is_refused(
  run, tmp_path, damaged, reason
):
  run("finished 0")
  path = tmp_path / "lr_0.3" / "experiment.json"
  path.write_bytes(damaged)
  with pytest.raises(UserError, match=f"experiment.json cannot.*{reason}"):
    run("finished 0")
  path.unlink()
  assert run("finished 0") == 0


def test_a_run_that_fails_stops_the_sweep(run):
  with pytest.raises(UserError, match="lr_0.3 failed for the reason above"):
    run("failed 1")


def test_a_directory_of_another_sweep_is_refused_by_its_keys(run):
  run("finished 0")
  with pytest.raises(UserError, match="model.depth: was 2, is 3") as error:
    run("finished 0", model__depth=3)
  # What has been measured with two layers says nothing of three.
  assert "choose another --workdir" in str(error.value)
  assert "allow_change" not in str(error.value)


@pytest.mark.parametrize(
  "changes",
  [
    {"log_every_steps": 7},
    {"evals__test__batch_size": 8},
    {"evals__test__split": "test[:2]"},  # Of the last run alone.
    {"evals__test__label_sets": "real.json"},
  ],
)
def test_what_no_metric_depends_on_may_change(run, tmp_path, changes):
  run("finished 0")
  assert run("finished 0", **changes) == 0
  assert calls(tmp_path) == 1


def test_results_of_other_examples_are_not_taken_for_those_asked_for(run):
  splits = {"sweep__train_split": "train[:80%]"}
  run("finished 0", **splits, sweep__dev_split="train[80%:]")
  with pytest.raises(UserError, match="evals.dev.split: was .train.80%:."):
    run("finished 0", **splits, sweep__dev_split="train[:2]")
  with pytest.raises(UserError, match="evals.dev.preprocess: was"):
    run(
      "finished 0",
      **splits,
      sweep__dev_split="train[80%:]",
      evals__test__preprocess="decode|resize(9)|central_crop",
    )


def test_a_run_that_ended_goes_on_with_a_change_that_is_allowed(run, tmp_path):
  run("finished 0")
  longer = {"total_steps": 9, "allow_change": "total_steps"}
  assert run("preempted 42", **longer) == 42
  assert run("finished 0", **longer) == 0
  assert calls(tmp_path) == 3
  assert run("finished 0", **longer) == 0
  assert calls(tmp_path) == 3


def test_a_change_of_what_is_measured_cannot_be_allowed(run):
  """Train would not measure again, and keep the metrics of before."""
  run("finished 0")
  other = {"sweep__train_split": "train[:80%]", "sweep__dev_split": "train[:2]"}
  with pytest.raises(UserError, match="evals.dev.split"):
    run("finished 0", **other, allow_change="train.split,evals")


def test_an_evaluator_may_be_mended_until_the_run_has_ended(run, tmp_path):
  fixed = {"evals__test__preprocess": "decode|resize(9)|central_crop"}
  with pytest.raises(UserError, match="failed for the reason above"):
    run("failed 1")
  assert run("preempted 42", **fixed) == 42
  assert run("finished 0", **fixed) == 0
  with pytest.raises(UserError, match="evals.dev.preprocess: was"):
    run("finished 0")


def test_results_of_data_elsewhere_are_taken_only_if_they_were_moved(
  run, tmp_path
):
  run("finished 0", data_dir="cats")
  with pytest.raises(UserError, match='"cats", is "dogs"(.|\n)*were moved'):
    run("finished 0", data_dir="dogs")
  # Then train compares the data with those of the run.
  moved = {"data_dir": "dogs", "allow_change": "data_dir"}
  assert run("finished 0", **moved) == 0
  assert calls(tmp_path) == 2


def test_only_a_run_of_the_same_config_has_ended(run, tmp_path):
  def found(**changes):
    config = experiments.config(sweep__learning_rates=(0.1, 0.3), **changes)
    return runner.has_ended(plan.trial(config, 0.3, str(tmp_path)))

  assert not found()
  run("preempted 42")
  assert not found()
  run("finished 0")
  assert found()
  assert not found(seed=1)
  assert not found(seed=1, allow_change="seed")
  (tmp_path / "lr_0.3" / "experiment.json").write_text("{")
  assert not found()


@pytest.mark.parametrize("order", ["wait", "deaf"])
@pytest.mark.parametrize(
  ("number", "code"), [(signal.SIGTERM, 42), (signal.SIGINT, 130)]
)
def test_a_request_to_stop_reaches_the_run(run, tmp_path, number, code, order):
  """Also if the run does not listen yet: what is saved is all there is."""
  asker = ask_once_there(tmp_path / "lr_0.3" / "waiting", os.getpid(), number)
  assert run(order) == code
  assert asker.wait(100) == 0


def test_a_request_while_a_run_is_being_started_reaches_it(
  run, tmp_path, monkeypatch
):
  start = subprocess.Popen

  def asked(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    return start(*arguments, **options)

  monkeypatch.setattr(runner.subprocess, "Popen", asked)
  assert run("wait") == 42


def ask_once_there(path, pid, number):
  """A process that sends a signal to `pid` when `path` exists."""
  code = f"""
import os, time
deadline = time.monotonic() + 100
while not os.path.exists({str(path)!r}):
  assert time.monotonic() < deadline
  time.sleep(0.01)
os.kill({pid}, {int(number)})
"""
  return subprocess.Popen(["python3", "-c", code])


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to do it")
def test_a_sweep_that_is_killed_takes_its_run_with_it(tmp_path):
  child = textwrap.dedent(
    """
    import subprocess, sys
    from vit_jax.sweeping import runner
    process = subprocess.Popen(
      ["sleep", "600"], preexec_fn=runner._end_with_parent
    )
    print(process.pid, flush=True)
    process.wait()
    """
  )
  parent = subprocess.Popen(
    [sys.executable, "-c", child], stdout=subprocess.PIPE, text=True
  )
  pid = int(parent.stdout.readline())
  parent.kill()
  parent.wait()
  parent.stdout.close()
  deadline = time.monotonic() + 100
  while is_running(pid):
    assert time.monotonic() < deadline
    time.sleep(0.01)


def is_running(pid):
  try:
    with open(f"/proc/{pid}/stat") as file:
      return file.read().rsplit(") ", 1)[1][0] != "Z"
  except FileNotFoundError:
    return False


def test_a_run_that_is_killed_is_named(run, tmp_path, capsys):
  assert run("killed") == 137
  said = capsys.readouterr().out
  assert "lr_0.3 was killed by SIGKILL; the same command resumes it." in said
