"""Several processes train as one does, and go on where another number left."""

import os
import subprocess
import sys

import numpy as np
import pytest

from vit_jax import records

pytestmark = pytest.mark.slow


SMALL = {"optimizer.name": "sgd", "model.dropout_rate": 0.1}


def run(
  repo,
  workdir,
  *module,
  devices,
  config="configs/quickstart.py:smoke",
  defaults=SMALL,
  **options,
):
  """Trains by a module, to the end; returns what it printed."""
  options = defaults | options
  done = subprocess.run(
    [
      *(sys.executable, "-m", *module),
      f"--config={config}",
      f"--workdir={workdir}",
      *(f"--config.{key}={value}" for key, value in options.items()),
    ],
    cwd=repo,
    env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)},
    capture_output=True,
    text=True,
    timeout=280,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


def run_together(repo, workdir, count, **options):
  """Trains with `count` processes of one device each."""
  flags = (f"--processes={count}", "--devices_per_process=1")
  return run(repo, workdir, "launch.local", *flags, devices=1, **options)


def metrics(workdir):
  return [
    {k: v for k, v in line.items() if not k.startswith("perf/")}
    for line in records.read_lines(workdir / "metrics.jsonl")
  ]


def assert_alike(workdir, other):
  mine, theirs = metrics(workdir), metrics(other)
  assert len(mine) == len(theirs)
  for line, its_line in zip(mine, theirs, strict=True):
    assert line == pytest.approx(its_line, rel=1e-6)


@pytest.mark.parametrize(
  "count", [2, pytest.param(4, marks=pytest.mark.exhaustive)]
)
def test_several_processes_log_what_one_does(repo, tmp_path, count):
  wide = {"model.mlp_dim": 16384}  # Large enough for a shared update.
  together = run_together(repo, tmp_path / "together", count, **wide)
  assert "0: finished at step 4" in together
  assert "1: step" not in together  # The first process speaks for all.
  alone = wide | {"mesh.fsdp": 1}
  run(repo, tmp_path / "one", "vit_jax.train", devices=count, **alone)
  assert len(metrics(tmp_path / "one")) == 6
  assert_alike(tmp_path / "together", tmp_path / "one")


def test_another_number_of_processes_on_another_mesh_goes_on_alike(
  repo, tmp_path
):
  """Two replicas; then four processes that share parameters; then one."""
  longer = {"schedule.decay": "constant", "allow_change": "total_steps"}
  parts = tmp_path / "parts"
  head = ((".*MlpBlock_0/Dense_./kernel", (None, "fsdp")),)
  split = {"mesh.data": 2, "mesh.fsdp": 2, "mesh.rules": head}
  run_together(repo, parts, 2, total_steps=2, **longer)
  run_together(repo, parts, 4, total_steps=4, **longer, **split)
  run(repo, parts, "vit_jax.train", devices=1, total_steps=6, **longer)
  whole = tmp_path / "whole"
  run(repo, whole, "vit_jax.train", devices=1, total_steps=6, **longer)
  assert_alike(parts, whole)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_processes_keep_the_features_that_one_keeps(repo, tmp_path, dtype):
  kept = {}
  for name, train in (("together", run_together), ("one", run)):
    how = (2,) if name == "together" else ("vit_jax.train",)
    devices = {} if name == "together" else {"devices": 2}
    train(
      repo,
      tmp_path / name,
      *how,
      **devices,
      config="configs/lit.py:smoke",
      defaults={"model.dtype": dtype},
      **{"objective.cache_frozen": tmp_path / f"{name}_cache"},
    )
    (rows,) = (tmp_path / f"{name}_cache").glob("*/rows.npy")
    kept[name] = np.load(rows)
  assert np.all(np.any(kept["one"] != 0, axis=1))
  np.testing.assert_allclose(
    kept["together"], kept["one"], rtol=1e-6, atol=1e-6
  )
  assert_alike(tmp_path / "together", tmp_path / "one")
