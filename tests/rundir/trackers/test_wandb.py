"""Runs of the real wandb, offline: what its files hold."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.rundir.trackers import wandb_file
from vit_jax.rundir.trackers.run_trackers import RunTrackers

wandb = pytest.importorskip("wandb")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
  for name in [name for name in os.environ if name.startswith("WANDB_")]:
    monkeypatch.delenv(name)
  monkeypatch.setenv("WANDB_MODE", "offline")
  yield
  wandb.teardown()


def files(directory):
  """The offline files of a workdir in order, without superseded ones."""
  found = sorted(directory.glob("wandb/offline-run-*/*.wandb"))
  return [f for f in found if not f.with_suffix(".wandb.synced").exists()]


def send(info, steps, status="finished", earlier=()):
  trackers = RunTrackers(["wandb"], info, earlier)
  for step in steps:
    trackers.write(step, {"train/loss": 1 / step, "eval/test/count": 7})
  trackers.finish(status)
  wandb.teardown()  # As at the end of a command: the file is whole.


def test_a_run_holds_every_line_and_its_description(info):
  send(info, [1, 50, 100])
  (file,) = files(info.directory)
  assert wandb_file.history(file) == [
    (step, {"train/loss": 1 / step, "eval/test/count": 7})
    for step in (1, 50, 100)
  ]
  records = wandb_file.read(file)
  run = records["run"][0]
  assert (run.project, run.display_name) == (info.project, "first")
  assert run.run_group == "sweep"
  config = wandb_file.values(run.config.update)
  del config["_wandb"]
  assert config == {**info.config, "run": info.facts}
  assert [exit.exit_code for exit in records["exit"]] == [0]


@pytest.mark.parametrize("status", ["preempted", "failed", "diverged"])
def test_a_run_that_did_not_finish_says_so(info, status):
  send(info, [1], status)
  records = wandb_file.read(files(info.directory)[0])
  assert [exit.exit_code for exit in records["exit"]] == [1]
  summary = {}
  for record in records["summary"]:
    summary |= wandb_file.values(record.update)
  assert summary["status"] == status


def test_steps_are_the_axis_of_every_metric_and_may_go_back(info):
  send(info, [10, 20, 15])  # As after a roll-back.
  (file,) = files(info.directory)
  assert [step for step, _ in wandb_file.history(file)] == [10, 20, 15]
  (glob,) = [m for m in wandb_file.read(file)["metric"] if m.glob_name == "*"]
  assert glob.step_metric == "step"


def test_a_resumed_run_has_the_same_id_and_only_what_is_new(info):
  send(info, [10, 20], "preempted")
  earlier = [{"step": step, "train/loss": 1 / step} for step in (10, 20)]
  send(info, [30], earlier=earlier)
  first, second = files(info.directory)
  assert first.name == second.name
  steps = [[s for s, _ in wandb_file.history(f)] for f in (first, second)]
  assert steps == [[10, 20], [30]]


_KILLED = """
import os, pathlib, signal, sys, time
from vit_jax.rundir.trackers.contract import RunInfo
from vit_jax.rundir.trackers.run_trackers import RunTrackers
home = pathlib.Path(sys.argv[1])
info = RunInfo("killed", "first", None, home, {}, {})
trackers = RunTrackers(["wandb"], info, [])
for step in (10, 20, 30):
  trackers.write(step, {"train/loss": 1 / step})
while not (home / "trackers.json").exists() or (
  "unfinished" not in (home / "trackers.json").read_text()
):
  time.sleep(0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_is_whole_once_it_is_resumed(info):
  """wandb loses what it had not yet written to its file."""
  command = [sys.executable, "-c", _KILLED, str(info.directory)]
  killed = subprocess.run(command, cwd=os.getcwd(), check=False)
  assert killed.returncode == -signal.SIGKILL
  (lost,) = files(info.directory)
  info = dataclasses.replace(info, project="killed")
  earlier = [{"step": step, "train/loss": 1 / step} for step in (10, 20)]
  send(info, [30, 40], earlier=earlier)
  (file,) = files(info.directory)
  assert file != lost
  assert file.name == lost.name
  assert [step for step, _ in wandb_file.history(file)] == [10, 20, 30, 40]


def test_without_a_key_nothing_is_asked_and_the_run_is_kept_offline(
  info, monkeypatch, tmp_path, caplog
):
  wandb.teardown()
  monkeypatch.setenv("WANDB_MODE", "online")
  monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
  monkeypatch.setenv("HOME", str(tmp_path))
  send(info, [1])
  assert [step for step, _ in wandb_file.history(files(tmp_path)[0])] == [1]
  assert "wandb keeps the run offline: no API key is known" in caplog.text


def test_a_server_that_cannot_be_reached_leaves_the_run_offline(
  info, monkeypatch, caplog
):
  wandb.teardown()
  monkeypatch.setenv("WANDB_MODE", "online")
  monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
  # Nobody listens at port 9, "discard".
  monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
  monkeypatch.setenv("WANDB_INIT_TIMEOUT", "1")
  send(info, [1, 2])
  (file,) = [f for f in files(info.directory) if f.stat().st_size > 7]
  assert [step for step, _ in wandb_file.history(file)] == [1, 2]
  assert "wandb keeps the run offline" in caplog.text
  memory = json.loads((info.directory / "trackers.json").read_text())
  assert memory["wandb"]["whole"]
