"""Two processes train as one does."""

import os
import socket
import subprocess
import sys

import pytest

from vit_jax import records

pytestmark = pytest.mark.slow


def start(repo, workdir, *, devices, environment):
  return subprocess.Popen(
    [
      sys.executable,
      "-m",
      "vit_jax.train",
      "--config=configs/quickstart.py:smoke",
      f"--workdir={workdir}",
      "--config.optimizer.name=sgd",
      "--config.model.dropout_rate=0.1",
    ],
    cwd=repo,
    env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), **environment},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def finish(process):
  out, err = process.communicate(timeout=280)
  assert process.returncode == 0, err
  return out


def metrics(workdir):
  return [
    {k: v for k, v in line.items() if not k.startswith("perf/")}
    for line in records.read_lines(workdir / "metrics.jsonl")
  ]


def test_two_processes_log_what_one_does(repo, tmp_path):
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    address = f"localhost:{probe.getsockname()[1]}"
  processes = [
    start(
      repo,
      tmp_path / "two",
      devices=1,
      environment={
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": str(index),
      },
    )
    for index in range(2)
  ]
  first, second = [finish(process) for process in processes]
  assert "finished at step 4" in first
  assert "step" not in second  # The first process speaks for both.
  finish(start(repo, tmp_path / "one", devices=2, environment={}))
  two, one = metrics(tmp_path / "two"), metrics(tmp_path / "one")
  assert len(two) == len(one) == 6
  for mine, theirs in zip(two, one, strict=True):
    assert mine == pytest.approx(theirs, rel=1e-5)
