"""A run that stands still says where and ends; one that gets on does not."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.faults import runs

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

# Runs the command with a save of step {step} that hangs when it is almost done.
HUNG_SAVE = """
import time
from vit_jax import command_line, train
from vit_jax.checkpoint import manifest
write = manifest.write
def disk_write(directory):
  if directory.name.split(".")[0] == "{step}":
    print("hangs", flush=True)
    time.sleep({seconds})
  write(directory)
manifest.write = disk_write
train.define_flags()
command_line.run(train.main, config_flag="config")
"""
SAVES = {
  "total_steps": 8,
  "checkpoint.every_steps": 4,
  "evals.test.every_steps": 8,
  "evals.fewshot.every_steps": 8,
}


def start_with_a_hung_save(repo, workdir, step, seconds, **options):
  driver = HUNG_SAVE.format(step=step, seconds=seconds)
  whole = runs.command(workdir, **(SAVES | options))
  return runs.start_command(repo, [sys.executable, "-c", driver, *whole[3:]])


@pytest.mark.slow
def test_a_last_save_that_hangs_ends_the_run(repo, tmp_path):
  limit = {"faults.watchdog_seconds": LIMIT}
  hung = start_with_a_hung_save(repo, tmp_path, 8, 3600, **limit)
  _, said = hung.communicate(timeout=200)
  assert hung.returncode == 137, said
  assert "saving a checkpoint: a disk or a network may be stuck" in said
  assert "disk_write" in said  # The stack of the thread that hangs.
  runs.end(runs.start(repo, tmp_path, **SAVES))
  assert runs.saved_steps(tmp_path) == [4, 8]


@pytest.mark.slow
def test_a_save_that_hangs_after_an_error_ends_the_run(repo, tmp_path):
  options = {
    "faults.watchdog_seconds": LIMIT,
    "optimizer.grad_clip_norm": None,
    "schedule.base_lr": 1e30,  # It diverges after the first save.
    "schedule.warmup_steps": 0,
    "checkpoint.every_steps": 1,
  }
  hung = start_with_a_hung_save(repo, tmp_path, 1, 3600, **options)
  _, said = hung.communicate(timeout=200)
  assert hung.returncode == 137, said
  assert "saving a checkpoint: a disk or a network may be stuck" in said


@pytest.mark.slow
def test_ctrl_c_while_the_last_save_is_waited_for_harms_nothing(repo, tmp_path):
  slow = start_with_a_hung_save(repo, tmp_path, 8, 10)
  assert any("hangs" in line for line in slow.stdout)
  time.sleep(2)  # Until the loop has ended, too.
  slow.send_signal(signal.SIGINT)
  out, _ = runs.end(slow)
  assert "Ctrl-C" in out and "finished at step 8" in out
  assert runs.saved_steps(tmp_path) == [4, 8]
  assert not (tmp_path / "run.lock").exists()


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
