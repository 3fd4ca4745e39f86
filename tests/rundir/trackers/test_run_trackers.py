"""Trackers never stop a run, and resume the run that they began."""

import json
import math

import jax
import pytest

from tests import experiments
from vit_jax import records
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.errors import DivergedError, UserError
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.rundir.trackers.run_trackers import RunTrackers
from vit_jax.train import train


def record(step, **values):
  return {"step": step, **(values or {"train/loss": 1 / step})}


def send(info, steps, *, status="finished", earlier=(), **options):
  """A start of a run that logs the steps."""
  trackers = RunTrackers(
    ["toy"], info, [record(step) for step in earlier], **options
  )
  for step in steps:
    trackers.write(step, {"train/loss": 1 / step})
  if status:
    trackers.finish(status)
  return trackers


def steps(lines):
  return [step for step, _ in lines]


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_the_run_that_it_began(store, tmp_path):
  workdir = tmp_path / "digits"
  train(experiments.config(log__to="toy", total_steps=4), str(workdir))
  longer = {"total_steps": 6, "allow_change": "total_steps"}
  train(experiments.config(log__to=("toy",), **longer), str(workdir))
  lines = [
    (line.pop("step"), line)
    for line in records.read_lines(workdir / "metrics.jsonl")
  ]
  assert store.runs == {"run-0": lines}
  assert store.statuses == {"run-0": ["finished", "finished"]}
  assert [info.config["total_steps"] for info in store.infos] == [4, 6]


def start(workdir, steps, *, status="finished", **changes):
  """A start of a run that writes lines without training."""
  parts = experiments.build(log__to="toy", **changes)
  with RunDirectory(str(workdir), parts, Clock()) as directory:
    directory.track()
    for step in steps:
      directory.write(step, {"train/loss": 1 / step})
    directory.finish(status)


def test_a_tracker_gets_what_a_run_writes_and_what_it_is(store, tmp_path):
  start(tmp_path / "digits", [1, 2], status="preempted")
  assert store.runs == {
    "run-0": [(1, {"train/loss": 1.0}), (2, {"train/loss": 0.5})]
  }
  assert store.statuses == {"run-0": ["preempted"]}
  (info,) = store.infos
  assert (info.name, info.project, info.group) == ("digits", None, None)
  assert info.config["model"]["variant"] == "Ti/4"
  assert info.facts["workdir"] == str(tmp_path / "digits")
  assert info.facts["versions"]["jax"] == jax.__version__


def test_a_run_has_the_name_that_its_config_gives(store, tmp_path):
  names = {"log__name": "seven", "log__project": "p", "log__group": "g"}
  start(tmp_path, [1], **names)
  (info,) = store.infos
  assert (info.name, info.project, info.group) == ("seven", "p", "g")


def test_a_run_that_an_error_ends_is_told_to_the_tracker(store, tmp_path):
  parts = experiments.build(log__to="toy")
  for error in (DivergedError("NaN"), RuntimeError("out of memory")):
    with pytest.raises(type(error)):
      with RunDirectory(str(tmp_path), parts, Clock()) as directory:
        directory.track()
        raise error
  assert store.statuses == {"run-0": ["diverged", "failed"]}


def test_a_run_that_cannot_close_its_checkpoints_has_failed(
  store, tmp_path, monkeypatch
):
  def close(self):
    raise OSError(5, "Input/output error")

  parts = experiments.build(log__to="toy")
  directory = RunDirectory(str(tmp_path), parts, Clock())
  directory.track()
  monkeypatch.setattr(CheckpointStore, "close", close)
  with pytest.raises(UserError, match="cannot be written .Input/output error"):
    directory.finish("finished")
  assert store.statuses == {"run-0": ["failed"]}


def test_a_tracker_that_fails_costs_a_warning_and_no_line(
  store, tmp_path, caplog
):
  store.write_errors = [ConnectionError("server error 500"), SystemExit(1)]
  start(tmp_path, range(1, 7))
  found = records.read_lines(tmp_path / "metrics.jsonl")
  assert [line["step"] for line in found] == [1, 2, 3, 4, 5, 6]
  assert caplog.text.count("is incomplete") == 1
  assert "toy (config.log.to) is incomplete: server error 500." in caplog.text


def test_a_workdir_in_a_bucket_remembers_its_run(store, bucket):
  for status in ("preempted", "finished"):
    start(bucket / "digits", [1], status=status)
  assert store.statuses == {"run-0": ["preempted", "finished"]}
  assert [info.name for info in store.infos] == ["digits", "digits"]


def test_only_the_first_process_tracks(store, tmp_path, monkeypatch):
  monkeypatch.setattr(jax, "process_index", lambda: 1)
  start(tmp_path, [1])
  assert store.starts == 0


@pytest.mark.parametrize("status", ["finished", None])
def test_no_line_of_an_earlier_start_is_missing(store, info, status):
  send(info, [2, 4], status=status or "failed")
  if status is None:  # Killed, so that lines of step 4 may be missing.
    path = info.directory / "trackers.json"
    memory = json.loads(path.read_text())
    memory["toy"]["whole"] = False
    path.write_text(json.dumps(memory))
  # It was killed at 8, and begins again after 6.
  send(info, [8], earlier=[2, 4, 6])
  again = [] if status else [4]
  assert steps(store.only) == [2, 4, *again, 6, 8]


def test_a_tracker_that_is_added_later_gets_all_lines(store, info):
  send(info, [30], earlier=[10, 20])
  assert steps(store.only) == [10, 20, 30]


def test_null_stands_for_a_number_that_was_not_finite(store, info):
  earlier = [record(10, **{"train/loss": None, "train/top1": 0.5})]
  RunTrackers(["toy"], info, earlier).finish("diverged")
  ((step, metrics),) = store.only
  assert (step, metrics["train/top1"]) == (10, 0.5)
  assert math.isnan(metrics["train/loss"])


def test_a_damaged_memory_begins_a_new_run(store, info):
  send(info, [1])
  (info.directory / "trackers.json").write_text('{"toy": {"id"')
  send(info, [2])
  assert [steps(lines) for lines in store.runs.values()] == [[1], [2]]


def test_a_tracker_that_hangs_is_given_up(store, info, caplog):
  store.open.clear()
  send(info, [1, 2], seconds_to_finish=0.1)
  assert store.abandoned == 1
  assert caplog.text.count("it does not answer") == 1
