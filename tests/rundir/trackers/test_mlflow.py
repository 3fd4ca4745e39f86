"""Runs of the real MLflow in a database, read back through its client."""

import dataclasses
import os

import pytest

from vit_jax.rundir.trackers.run_trackers import RunTrackers

mlflow = pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
  return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def client(database, monkeypatch):
  for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
    monkeypatch.delenv(name)
  monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
  return mlflow.MlflowClient()


def send(info, steps, status="finished", earlier=(), **metrics):
  trackers = RunTrackers(["mlflow"], info, earlier)
  for step in steps:
    trackers.write(step, metrics or {"train/loss": 1 / step})
  trackers.finish(status)


def runs(client, info):
  experiment = client.get_experiment_by_name(info.project)
  return client.search_runs([experiment.experiment_id])


def history(client, run, name="train/loss"):
  found = client.get_metric_history(run.info.run_id, name)
  return [(metric.step, metric.value) for metric in found]


def test_a_run_holds_every_line_and_its_description(client, info):
  send(info, [1, 50, 100])
  (run,) = runs(client, info)
  assert history(client, run) == [(1, 1.0), (50, 0.02), (100, 0.01)]
  assert run.info.run_name == "first"
  assert run.data.params == {
    "seed": "3",
    "model.variant": "Ti/4",
    "evals": "{}",
  }
  expected = {"workdir": "/runs/first", "versions.jax": "1.2", "group": "sweep"}
  assert expected.items() <= run.data.tags.items()


@pytest.mark.parametrize(
  ("status", "shown"),
  [
    ("finished", "FINISHED"),
    ("preempted", "KILLED"),
    ("interrupted", "KILLED"),
    ("diverged", "FAILED"),
    ("failed", "FAILED"),
  ],
)
def test_it_shows_how_a_run_ended(client, info, status, shown):
  send(info, [1], status)
  (run,) = runs(client, info)
  assert run.info.status == shown
  assert run.data.tags["status"] == status


def test_a_resumed_run_is_the_same_and_has_each_line_once(client, info):
  send(info, [10, 20], "preempted")
  earlier = [{"step": step, "train/loss": 1 / step} for step in (10, 20)]
  changed = dataclasses.replace(info, config={**info.config, "seed": 4})
  send(changed, [30], earlier=earlier)
  (run,) = runs(client, info)
  assert [step for step, _ in history(client, run)] == [10, 20, 30]
  assert run.info.status == "FINISHED"
  # A parameter cannot change; a tag can.
  assert (run.data.params["seed"], run.data.tags["seed"]) == ("3", "4")


def test_a_run_that_the_database_has_lost_begins_again_with_all_lines(
  client, info
):
  send(info, [10, 20], "preempted")
  (run,) = runs(client, info)
  client.delete_run(run.info.run_id)
  earlier = [{"step": step, "train/loss": 1 / step} for step in (10, 20)]
  send(info, [30], earlier=earlier)
  (run,) = runs(client, info)
  assert [step for step, _ in history(client, run)] == [10, 20, 30]


def test_odd_names_and_long_values_are_taken(client, info):
  odd = dataclasses.replace(info, config={"evals": {"a(b)": "x" * 10_000}})
  send(odd, [1], **{"eval/a(b)/top1": 0.5})
  (run,) = runs(client, odd)
  assert run.data.metrics == {"eval/a_b_/top1": 0.5}
  assert run.data.params == {"evals.a_b_": "x" * 6000}


def test_a_number_that_is_not_finite_is_kept(client, info):
  send(info, [1], **{"train/loss": float("nan"), "train/top1": 0.5})
  (run,) = runs(client, info)
  ((step, value),) = history(client, run)
  assert step == 1 and value != value
  assert run.data.metrics["train/top1"] == 0.5


def test_many_lines_at_once_are_all_kept(client, info):
  earlier = [
    {"step": step, **{f"train/m{i}": float(i) for i in range(60)}}
    for step in range(1, 101)
  ]
  send(info, [], earlier=earlier)
  (run,) = runs(client, info)
  for name in ("train/m0", "train/m59"):
    steps = [step for step, _ in history(client, run, name)]
    assert steps == list(range(1, 101))
