"""A run that stands still says where and ends; one that gets on does not."""

import json
import subprocess
import sys
import time

import pytest

LIMIT = 8

# Runs the command with data that stall, or slow down, after some reads.
DRIVER = """
import itertools, sys, time
from vit_jax import command_line, train
from vit_jax.data.generated import GeneratedSource
read, reads = GeneratedSource.read, itertools.count()
def disk_read(self, ids):
  if next(reads) >= {after}:
    time.sleep({seconds})
  return read(self, ids)
GeneratedSource.read = disk_read
train.define_flags()
command_line.run(train.main, config_flag="config")
"""


def run(repo, workdir, *, after, seconds, steps=40, **options):
  settings = {
    "faults.watchdog_seconds": LIMIT,
    "total_steps": steps,
    "checkpoint.every_steps": 8,
    "evals.test.every_steps": steps,
    "evals.fewshot.every_steps": steps,
  }
  return subprocess.run(
    [
      sys.executable,
      "-c",
      DRIVER.format(after=after, seconds=seconds),
      "--config=configs/quickstart.py:smoke",
      f"--workdir={workdir}",
      *(f"--config.{k}={v}" for k, v in (settings | options).items()),
    ],
    cwd=repo,
    capture_output=True,
    text=True,
    timeout=280,
  )


@pytest.mark.slow
def test_stalled_data_end_the_run_and_it_goes_on_later(repo, tmp_path):
  start = time.monotonic()
  stalled = run(repo, tmp_path, after=4, seconds=3600)
  assert stalled.returncode == 137, stalled.stderr
  assert time.monotonic() - start < 200
  assert "has stood still for" in stalled.stderr
  assert "waiting for data" in stalled.stderr
  # The stacks of all threads: the loop that waits, and the read that hangs.
  assert "disk_read" in stalled.stderr and "loop.py" in stalled.stderr
  saved = [int(p.name) for p in (tmp_path / "checkpoints").iterdir()]
  assert saved and max(saved) < 40
  again = run(repo, tmp_path, after=10**9, seconds=0)
  assert again.returncode == 0, again.stderr
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["step"] == 40
  account = summary["goodput"]
  assert account["starts"] == 2
  # The limit was waited for in vain, at least from the last mark on.
  assert account["total_seconds"] > LIMIT


@pytest.mark.exhaustive
def test_slow_data_do_not(repo, tmp_path):
  """Every read takes a third of the limit, several times the limit in all."""
  slow = run(repo, tmp_path, after=1, seconds=LIMIT / 3, steps=16)
  assert slow.returncode == 0, slow.stderr
