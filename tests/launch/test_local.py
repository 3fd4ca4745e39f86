"""Several processes of this machine as one run."""

import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import pytest

from launch import local
from tests.faults import runs

FLAGS = ["--config=configs/quickstart.py:smoke", "--config.seed=3"]


def launch(repo, *flags):
  return subprocess.Popen(
    [sys.executable, "-m", "launch.local", *flags],
    cwd=repo,
    env=os.environ,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def two_under_way(repo, workdir, total_steps):
  """A run of two processes, past its fifth step."""
  options = runs.SELDOM | {"total_steps": total_steps}
  process = launch(
    repo,
    "--processes=2",
    FLAGS[0],
    f"--workdir={workdir}",
    *(f"--config.{key}={value}" for key, value in options.items()),
  )
  runs.wait_for_step(process, workdir, 5)
  return process


def children(process):
  """Process ids of those that a process started, the first one first."""
  path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
  return [int(pid) for pid in path.read_text().split()]


def test_a_dry_run_prints_each_process(repo, tmp_path):
  workdir = tmp_path / "it's one"
  process = launch(
    repo, "--processes=3", "--dry_run", f"--workdir={workdir}", *FLAGS
  )
  out, err = process.communicate(timeout=300)
  assert process.returncode == 0, err
  lines = [shlex.split(line) for line in out.splitlines()]
  assert len(lines) == 3
  for index, (env, *words) in enumerate(lines):
    assert env == "env"
    assert f"JAX_PROCESS_ID={index}" in words
    assert words[-6:] == [
      *(sys.executable, "-m", "vit_jax.train"),
      f"--config={repo}/configs/quickstart.py:smoke",
      "--config.seed=3",
      f"--workdir={workdir}",
    ]
  assert not workdir.exists()


@pytest.mark.parametrize(
  ("flags", "said"),
  [
    ([], "No experiment was named"),
    (FLAGS, "give --workdir=DIR"),
    ([*FLAGS, "--config.sed=3", "--workdir=x"], "config.seed"),
    ([*FLAGS, "--config.train.batch_size=-1", "--workdir=x"], "batch_size"),
    ([*FLAGS, "--processes=0", "--workdir=x"], "positive"),
    ([*FLAGS, "--workdir=x", "more"], "more"),
  ],
)
def test_bad_input_is_a_sentence(repo, flags, said):
  process = launch(repo, *flags)
  _, err = process.communicate(timeout=300)
  assert process.returncode == 1
  assert said in err and "Traceback" not in err


def test_each_attempt_is_a_run_of_its_own(tmp_path, capfd):
  """All processes start again together, with another coordinator."""
  code = (
    "import os, pathlib, sys\n"
    f"place = pathlib.Path({str(tmp_path)!r}, os.environ['JAX_PROCESS_ID'])\n"
    "said = place.read_text() if place.exists() else ''\n"
    "place.write_text(said + os.environ['JAX_COORDINATOR_ADDRESS'] + '\\n')\n"
    "sys.exit(0 if said else 42)"
  )
  command = [sys.executable, "-ISc", code]
  assert local.run(command, 2, 1, max_restarts=3) == 0
  first, second = ((tmp_path / name).read_text().split() for name in "01")
  assert first == second and len(set(first)) == 2
  assert "restart 1 of 3" in capfd.readouterr().err


@pytest.mark.exhaustive
def test_a_preempted_process_costs_no_step(repo, tmp_path):
  """SIGTERM to one process, even several: all save, start again and finish."""
  process = two_under_way(repo, tmp_path, total_steps=150)
  for pid in children(process)[1:] * 3:  # As clusters do: each to all they see.
    with contextlib.suppress(ProcessLookupError):
      os.kill(pid, signal.SIGTERM)
    time.sleep(0.3)
  out, err = runs.end(process)
  assert "0: preempted at step" in out and "restart 1 of 3" in err
  assert "0: finished at step 150" in out
  steps = [step for step, name in runs.values(tmp_path) if name == "train/loss"]
  assert steps == list(range(1, 151))


@pytest.mark.slow
def test_ctrl_c_reaches_all_and_ends_it(repo, tmp_path):
  process = two_under_way(repo, tmp_path, total_steps=5000)
  process.send_signal(signal.SIGINT)
  out, _ = runs.end(process, 130)
  assert "0: interrupted at step" in out
  assert len(runs.saved_steps(tmp_path)) == 1
