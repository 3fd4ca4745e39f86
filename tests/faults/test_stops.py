"""Runs that are killed, preempted or interrupted lose nothing."""

import json
import random
import signal
import time

import pytest

from tests.faults import runs


@pytest.fixture(scope="module")
def undisturbed(repo, tmp_path_factory):
  workdir = tmp_path_factory.mktemp("undisturbed")
  runs.end(runs.start(repo, workdir))
  return runs.values(workdir)


def test_a_killed_run_goes_on_to_bit_identical_losses(
  repo, tmp_path, undisturbed
):
  rng = random.Random(0)
  killed = 0
  for moment in (2, 9, 21):
    process = runs.start(repo, tmp_path)
    runs.wait_for_step(process, tmp_path, moment)
    time.sleep(rng.uniform(0, 0.3))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    killed += process.returncode == -signal.SIGKILL
  runs.end(runs.start(repo, tmp_path))
  assert killed >= 2
  assert runs.values(tmp_path) == undisturbed


@pytest.mark.parametrize(
  ("sent", "code", "status"),
  [(signal.SIGTERM, 42, "preempted"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_run_asked_to_stop_saves_and_loses_no_step(
  repo, tmp_path, sent, code, status
):
  # Long enough that it cannot end before it hears of the request.
  options = {"total_steps": 1500, **runs.SELDOM}
  process = runs.start(repo, tmp_path, **options)
  runs.wait_for_step(process, tmp_path, 2)
  process.send_signal(sent)
  out, _ = runs.end(process, code)
  assert f"{status} at step" in out
  assert "The same command goes on from here" in out
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["status"] == status
  stopped = runs.lines(tmp_path)[-1]["step"]
  assert runs.saved_steps(tmp_path) == [stopped]
  runs.end(runs.start(repo, tmp_path, **options))
  steps = [step for step, name in runs.values(tmp_path) if name == "train/loss"]
  assert steps == list(range(1, 1501))
