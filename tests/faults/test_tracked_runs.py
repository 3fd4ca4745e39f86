"""A run that is killed and resumed is one run, and whole, in real trackers."""

import json
import signal
import sqlite3

import pytest

from tests.faults import runs
from tests.rundir.trackers import wandb_file

pytestmark = pytest.mark.slow


def of_wandb(workdir, home):
  """Step and name -> values, of all files that `wandb sync` would send."""
  files = sorted(workdir.glob("wandb/offline-run-*/*.wandb"))
  sent = [f for f in files if not f.with_suffix(".wandb.synced").exists()]
  assert len({file.name for file in files}) == 1
  return [line for file in sent for line in wandb_file.history(file)]


def of_mlflow(workdir, home):
  mlflow = pytest.importorskip("mlflow")
  client = mlflow.MlflowClient(f"sqlite:///{home}/mlflow.db")
  experiment = client.get_experiment_by_name("vit_jax")
  (run,) = client.search_runs([experiment.experiment_id])
  assert run.info.status == "FINISHED"
  return [
    (metric.step, {name: metric.value})
    for name in run.data.metrics
    for metric in client.get_metric_history(run.info.run_id, name)
  ]


def of_trackio(workdir, home):
  database = sqlite3.connect(home / "trackio" / "vit_jax.db")
  rows = database.execute(
    "SELECT run_id, step, metrics FROM metrics"
  ).fetchall()
  assert len({run for run, _, _ in rows}) == 1
  return [(step, json.loads(metrics)) for _, step, metrics in rows]


@pytest.mark.parametrize(
  ("tracker", "read"),
  [("wandb", of_wandb), ("mlflow", of_mlflow), ("trackio", of_trackio)],
)
def test_a_killed_run_is_one_run_with_all_lines(repo, tmp_path, tracker, read):
  library = pytest.importorskip(tracker)
  workdir = tmp_path / "run"
  environment = {
    "WANDB_MODE": "offline",
    "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
    "TRACKIO_DIR": str(tmp_path / "trackio"),
  }
  if tracker == "mlflow":
    # A database whose making was cut short is of no more use to it.
    library.MlflowClient(environment["MLFLOW_TRACKING_URI"])
  options = {"log.to": tracker, "environment": environment}
  process = runs.start(repo, workdir, **options)
  runs.wait_for_step(process, workdir, 21)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  assert process.returncode == -signal.SIGKILL
  runs.end(runs.start(repo, workdir, **options))
  found = {}
  for step, metrics in read(workdir, tmp_path):
    for name, value in metrics.items():
      if name.startswith(runs.PREFIXES):
        # Steps that are computed again have the same values.
        assert found.setdefault((step, name), value) == value
  assert found == runs.values(workdir)
