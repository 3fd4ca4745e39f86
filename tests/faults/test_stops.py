"""Runs that are killed, preempted or interrupted lose nothing."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

from vit_jax import records

STEPS = 30


OFTEN = {
  "checkpoint.every_steps": 4,
  "evals.test.every_steps": 10,
  "evals.fewshot.every_steps": 30,
}


def start(repo, workdir, **options):
  options = OFTEN | options
  return subprocess.Popen(
    [
      sys.executable,
      "-m",
      "vit_jax.train",
      "--config=configs/quickstart.py:smoke",
      f"--workdir={workdir}",
      f"--config.total_steps={options.pop('steps', STEPS)}",
      "--config.model.dropout_rate=0.1",
      *(f"--config.{key}={value}" for key, value in options.items()),
    ],
    cwd=repo,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def finish(process, code=0):
  out, err = process.communicate(timeout=300)
  assert process.returncode == code, err
  assert "Traceback" not in err
  return out


def lines(workdir):
  path = workdir / "metrics.jsonl"
  return records.read_lines(path) if path.exists() else []


def values(workdir):
  """All that training computed: step and name -> value, each once."""
  found = {}
  for line in lines(workdir):
    for name, value in line.items():
      if name.startswith(("train/", "eval/", "fewshot/")):
        assert (line["step"], name) not in found
        found[line["step"], name] = value
  return found


def wait_for_step(process, workdir, step):
  deadline = time.monotonic() + 200
  while process.poll() is None and time.monotonic() < deadline:
    written = lines(workdir)
    if written and written[-1]["step"] >= step:
      return
    time.sleep(0.005)


@pytest.fixture(scope="module")
def undisturbed(repo, tmp_path_factory):
  workdir = tmp_path_factory.mktemp("undisturbed")
  finish(start(repo, workdir))
  return values(workdir)


def test_a_killed_run_goes_on_to_bit_identical_losses(
  repo, tmp_path, undisturbed
):
  rng = random.Random(0)
  killed = 0
  for moment in (2, 9, 21):
    process = start(repo, tmp_path)
    wait_for_step(process, tmp_path, moment)
    time.sleep(rng.uniform(0, 0.3))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    killed += process.returncode == -signal.SIGKILL
  finish(start(repo, tmp_path))
  assert killed >= 2
  assert values(tmp_path) == undisturbed


@pytest.mark.parametrize(
  ("sent", "code", "status"),
  [(signal.SIGTERM, 42, "preempted"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_run_asked_to_stop_saves_and_loses_no_step(
  repo, tmp_path, sent, code, status
):
  # Long enough that it cannot end before it hears of the request.
  options = {
    "steps": 1500,
    "checkpoint.every_steps": 10_000,
    "evals.test.every_steps": 10_000,
    "evals.fewshot.every_steps": 10_000,
  }
  process = start(repo, tmp_path, **options)
  wait_for_step(process, tmp_path, 2)
  process.send_signal(sent)
  out = finish(process, code)
  assert f"{status} at step" in out
  assert "The same command goes on from here" in out
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["status"] == status
  stopped = lines(tmp_path)[-1]["step"]
  saved = [int(path.name) for path in (tmp_path / "checkpoints").iterdir()]
  assert saved == [stopped]
  finish(start(repo, tmp_path, **options))
  steps = [step for step, name in values(tmp_path) if name == "train/loss"]
  assert steps == list(range(1, 1501))
