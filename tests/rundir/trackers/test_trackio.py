"""Runs of the real Trackio, read back from its database."""

import json
import sqlite3

import pytest

from vit_jax.rundir.trackers.run_trackers import RunTrackers

trackio = pytest.importorskip("trackio")


def send(info, steps, status="finished", earlier=()):
  trackers = RunTrackers(["trackio"], info, earlier)
  for step in steps:
    trackers.write(step, {"train/loss": 1 / step})
  trackers.finish(status)


def runs(info):
  return list(trackio.Api().runs(info.project))


def rows(info, run):
  """(step, metrics) of a run, in the order in which they came."""
  database = sqlite3.connect(trackio.TRACKIO_DIR / f"{info.project}.db")
  query = "SELECT step, metrics FROM metrics WHERE run_id = ? ORDER BY id"
  return [(s, json.loads(m)) for s, m in database.execute(query, (run.id,))]


def test_a_run_holds_every_line_and_its_description(info):
  send(info, [1, 50, 100])
  (run,) = runs(info)
  assert rows(info, run) == [
    (step, {"train/loss": 1 / step}) for step in (1, 50, 100)
  ]
  assert run.name.startswith("first-")
  assert run.config["_Group"] == "sweep"
  assert run.config["model"] == {"variant": "Ti/4"}
  assert run.config["run"]["workdir"] == "/runs/first"


@pytest.mark.parametrize("status", ["finished", "preempted", "diverged"])
def test_it_shows_how_a_run_ended(info, status):
  send(info, [1], status)
  (run,) = runs(info)
  assert [alert["title"] for alert in run.alerts()] == [f"Run {status}"]


def test_a_resumed_run_is_the_same_and_has_each_line_once(info):
  send(info, [10, 20], "preempted")
  earlier = [{"step": step, "train/loss": 1 / step} for step in (10, 20)]
  send(info, [30], earlier=earlier)
  (run,) = runs(info)
  assert [step for step, _ in rows(info, run)] == [10, 20, 30]


def test_runs_of_one_name_in_two_workdirs_are_two_runs(info, tmp_path):
  send(info, [1], "preempted")
  (info.directory / "trackers.json").rename(tmp_path / "kept.json")
  send(info, [2])
  (tmp_path / "kept.json").rename(info.directory / "trackers.json")
  send(info, [3], earlier=[{"step": 1, "train/loss": 1.0}])
  found = [[step for step, _ in rows(info, run)] for run in runs(info)]
  assert sorted(found) == [[1, 3], [2]]
