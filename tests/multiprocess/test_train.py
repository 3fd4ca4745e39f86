"""Two processes train as one does."""

import os
import subprocess
import sys

import pytest

from vit_jax import records

pytestmark = pytest.mark.slow


def run(repo, workdir, *module, devices):
  """Trains by a module, to the end; returns what it printed."""
  done = subprocess.run(
    [
      *(sys.executable, "-m", *module),
      "--config=configs/quickstart.py:smoke",
      f"--workdir={workdir}",
      "--config.optimizer.name=sgd",
      "--config.model.dropout_rate=0.1",
    ],
    cwd=repo,
    env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)},
    capture_output=True,
    text=True,
    timeout=280,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


def metrics(workdir):
  return [
    {k: v for k, v in line.items() if not k.startswith("perf/")}
    for line in records.read_lines(workdir / "metrics.jsonl")
  ]


def test_two_processes_log_what_one_does(repo, tmp_path):
  together = run(
    repo,
    tmp_path / "two",
    *("launch.local", "--processes=2", "--devices_per_process=1"),
    devices=1,
  )
  assert "0: finished at step 4" in together
  assert "1: step" not in together  # The first process speaks for both.
  run(repo, tmp_path / "one", "vit_jax.train", devices=2)
  two, one = metrics(tmp_path / "two"), metrics(tmp_path / "one")
  assert len(two) == len(one) == 6
  for mine, theirs in zip(two, one, strict=True):
    assert mine == pytest.approx(theirs, rel=1e-5)
