"""Runs that are killed, preempted or interrupted lose nothing."""

import json
import pathlib
import random
import re
import signal
import sys
import time

import pytest

from tests import experiments
from tests.faults import runs
from vit_jax.checkpoint import manifest
from vit_jax.processes.stopping import StopRequest
from vit_jax.train import train

KILLS = 20


@pytest.fixture(scope="module")
def undisturbed(repo, tmp_path_factory):
  workdir = tmp_path_factory.mktemp("undisturbed")
  runs.end(runs.start(repo, workdir))
  return runs.values(workdir)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
  ("sent", "code", "status"),
  [(signal.SIGTERM, 42, "preempted"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_run_asked_to_stop_saves_and_loses_no_step(
  repo, tmp_path, sent, code, status
):
  # Long enough that it cannot end before it hears of the request.
  options = {"total_steps": 400, **runs.SELDOM}
  process = runs.start(repo, tmp_path, **options)
  runs.wait_for_step(process, tmp_path, 2)
  process.send_signal(sent)
  out, _ = runs.end(process, code)
  assert f"{status} at step" in out
  assert "The same command resumes from here" in out
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["status"] == status
  stopped = runs.lines(tmp_path)[-1]["step"]
  assert runs.saved_steps(tmp_path) == [stopped]
  runs.end(runs.start(repo, tmp_path, **options))
  steps = [step for step, name in runs.values(tmp_path) if name == "train/loss"]
  assert steps == list(range(1, 401))


@pytest.mark.exhaustive
def test_twenty_kills_cost_no_bit(repo, tmp_path):
  options = {"total_steps": 300}
  start = time.monotonic()
  runs.end(runs.start(repo, tmp_path / "whole", **options))
  seconds = time.monotonic() - start
  workdir = tmp_path / "killed"
  saves = workdir / "checkpoints"
  rng = random.Random(0)
  kills = ends = while_saving = 0
  while kills < KILLS:
    process = runs.start(repo, workdir, **options)
    if kills % 2:
      runs.wait_for(process, lambda at=saves: any(at.glob("*.orbax-*")))
      time.sleep(rng.uniform(0, 0.02))
    else:
      time.sleep(rng.uniform(0, seconds))
    process.kill()
    process.communicate()
    kills += process.returncode == -signal.SIGKILL
    while_saving += any(saves.glob("*.orbax-*"))
    for step in saves.glob("[0-9]*[0-9]"):
      assert manifest.damage(step) == []
    if process.returncode == 0:  # It had ended: begin once more.
      assert runs.values(workdir) == runs.values(tmp_path / "whole")
      ends += 1
      workdir = tmp_path / f"after{ends}"
      saves = workdir / "checkpoints"
  runs.end(runs.start(repo, workdir, **options))
  print(f"{KILLS} kills, {while_saving} of them in the middle of a save")
  assert while_saving
  assert runs.values(workdir) == runs.values(tmp_path / "whole")


def test_a_request_while_the_step_compiles_is_answered_at_once(repo, tmp_path):
  process = runs.start(
    repo,
    tmp_path,
    environment={"JAX_COMPILATION_CACHE_DIR": "", "XLA_FLAGS": ""},
    **{"model.depth": 48},
  )
  runs.wait_for(process, (tmp_path / "run.lock").exists)
  time.sleep(3)
  start = time.monotonic()
  process.send_signal(signal.SIGTERM)
  out, _ = runs.end(process, 42)
  assert time.monotonic() - start < 30
  assert "preempted before the first step of this start" in out
  assert not (tmp_path / "run.lock").exists()
  assert runs.lines(tmp_path) == []


@pytest.mark.slow
def test_a_request_in_a_long_evaluation_is_answered_at_once(repo, tmp_path):
  long = {
    "total_steps": 12,
    "evals.test.dataset": "generated:examples=100000,size=16",
    "evals.test.batch_size": 4,
  }
  process = runs.start(repo, tmp_path, **long)
  runs.wait_for_step(process, tmp_path, 10)
  time.sleep(1)
  start = time.monotonic()
  process.send_signal(signal.SIGTERM)
  out, _ = runs.end(process, 42)
  assert time.monotonic() - start < 30
  assert "preempted at step 10" in out
  assert runs.saved_steps(tmp_path)[-1] == 10
  runs.end(runs.start(repo, tmp_path, total_steps=12))
  found = runs.values(tmp_path)
  assert {(10, "eval/test/top1"), (12, "eval/test/top1")} <= set(found)
  assert [s for s, name in found if name == "train/loss"] == list(range(1, 13))


def test_an_evaluation_ends_at_once_when_it_is_asked_to(repo, tmp_path):
  run, output = tmp_path / "run", tmp_path / "found.json"
  train(experiments.config(total_steps=2), str(run))
  command = [
    *(sys.executable, "-m", "vit_jax.evaluate", f"--checkpoint={run}"),
    *(f"--config={run}/config.json", f"--output={output}"),
    "--config.evals.test.dataset=generated:classes=4,size=8,examples=10000000",
    "--config.evals.test.batch_size=4",
  ]
  process = runs.start_command(repo, command)
  status = pathlib.Path(f"/proc/{process.pid}/status")

  def catches_sigterm():
    mask = int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16)
    return bool(mask >> (signal.SIGTERM - 1) & 1)

  runs.wait_for(process, catches_sigterm)
  time.sleep(8)
  assert process.poll() is None
  start = time.monotonic()
  process.send_signal(signal.SIGTERM)
  out, _ = runs.end(process, 143)
  assert time.monotonic() - start < 10
  assert out == "stopped by SIGTERM\n"
  assert {path.name for path in tmp_path.iterdir()} == {"run"}


@pytest.mark.slow
def test_an_evaluation_that_is_stopped_shows_the_checkpoints_before(
  repo, tmp_path
):
  first, second = tmp_path / "first", tmp_path / "second"
  for run in (first, second):
    train(experiments.config(total_steps=2), str(run))
  output, report = tmp_path / "found.json", tmp_path / "found.md"
  command = [
    *(sys.executable, "-m", "vit_jax.evaluate", f"--checkpoint={first}"),
    *(f"--checkpoint={second}", f"--config={first}/config.json"),
    *(f"--output={output}", f"--report={report}"),
    "--config.evals.test.dataset=generated:classes=4,size=8,examples=40000",
    "--config.evals.test.split=test",
    "--config.evals.test.batch_size=4",
  ]
  process = runs.start_command(repo, command)
  runs.wait_for(process, output.exists)
  process.send_signal(signal.SIGTERM)
  out, _ = runs.end(process, 143)
  (metrics,) = json.loads(output.read_text()).values()
  top1 = metrics["eval/test/top1"]
  shown = {out: f"{top1:.4g}", report.read_text(): f"| {100 * top1:.2f} |"}
  for text, value in shown.items():
    assert value in text
    assert "first" in text and "second" not in text


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
  """What the tiny run of `experiments` computes, undisturbed."""
  workdir = tmp_path_factory.mktemp("expected")
  assert train(experiments.config(model__dropout_rate=0.1), str(workdir)) == 0
  return runs.values(workdir)


# Of the fourteen questions: those of the quick and of the slow tests.
MARKS = {1: pytest.mark.slow, 6: (), 9: pytest.mark.slow, 12: ()}


@pytest.mark.parametrize(
  "question",
  [
    pytest.param(x, marks=MARKS.get(x, pytest.mark.exhaustive))
    for x in range(1, 15)
  ],
)
def test_whenever_it_stops_the_run_is_the_same(
  tmp_path, monkeypatch, expected, question
):
  """A stop at every question: between steps and within evaluations."""
  config = experiments.config(model__dropout_rate=0.1)
  left = iter(range(question))

  def asked(self):
    self.given |= next(left, None) is None
    return self.given

  with monkeypatch.context() as context:
    context.setattr(StopRequest, "asked", asked)
    code = train(config, str(tmp_path))
  stopped = runs.values(tmp_path)
  assert code == (0 if stopped == expected else 42)
  assert train(config, str(tmp_path)) == 0
  assert runs.values(tmp_path) == expected


def test_the_summary_says_how_far_a_stopped_run_got(tmp_path, monkeypatch):
  """Though lines of metrics come more seldom."""
  left = iter(range(2))

  def asked(self):
    self.given |= next(left, None) is None
    return self.given

  monkeypatch.setattr(StopRequest, "asked", asked)
  config = experiments.config(log_every_steps=100, evals__test__every_steps=6)
  assert train(config, str(tmp_path)) == 42
  saved = runs.saved_steps(tmp_path)[-1]
  assert saved > 1 == runs.lines(tmp_path)[-1]["step"]
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert (summary["status"], summary["step"]) == ("preempted", saved)
