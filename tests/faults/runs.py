"""Runs as processes of their own, to be killed, stopped and read."""

import os
import subprocess
import sys
import time

from launch import processes
from vit_jax import records

STEPS = 30
OFTEN = {
  "checkpoint.every_steps": 4,
  "evals.test.every_steps": 10,
  "evals.fewshot.every_steps": 30,
}
PREFIXES = (
  *("train/", "eval/", "fewshot/", "knn/", "zeroshot/", "retrieval/"),
  "reconstruction/",
)
SELDOM = {
  "checkpoint.every_steps": 10_000,
  "evals.test.every_steps": 10_000,
  "evals.fewshot.every_steps": 10_000,
}


def command(workdir, **options):
  """The train command of a tiny run; options override config keys."""
  options = OFTEN | {"model.dropout_rate": 0.1} | options
  return command_of("configs/quickstart.py:smoke", workdir, **options)


def command_of(config, workdir, **options):
  """The train command of any config; options override its keys."""
  options = {"total_steps": STEPS} | options
  return [
    sys.executable,
    "-m",
    "vit_jax.train",
    f"--config={config}",
    f"--workdir={workdir}",
    *(f"--config.{key}={value}" for key, value in options.items()),
  ]


def start(repo, workdir, *, environment=None, **options):
  return start_command(repo, command(workdir, **options), environment)


def start_command(repo, command, environment=None):
  return subprocess.Popen(
    command,
    cwd=repo,
    env={**os.environ, **(environment or {})},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def start_together(repo, workdir, count, *, each=None, **options):
  """The processes of one run, with two devices each.

  Args:
    repo: where the package is.
    workdir: of the run.
    count: processes.
    each: further options of every process.
    options: of all.
  """
  return [
    start(
      repo,
      workdir,
      environment=environment,
      **options,
      **(each[index] if each else {}),
    )
    for index, environment in enumerate(processes.environments(count, 2))
  ]


def end(process, code=0, timeout=300):
  """Waits for a run; checks how it ended; returns its stdout and stderr."""
  out, err = process.communicate(timeout=timeout)
  assert process.returncode == code, f"{process.returncode}\n{out}\n{err}"
  assert "Traceback" not in err, err
  return out, err


def lines(workdir):
  path = workdir / "metrics.jsonl"
  return records.read_lines(path) if path.exists() else []


def values(workdir):
  """All that training computed: step and name -> value, each once."""
  found = {}
  for line in lines(workdir):
    for name, value in line.items():
      if name.startswith(PREFIXES):
        assert (line["step"], name) not in found
        found[line["step"], name] = value
  return found


def saved_steps(workdir):
  return sorted(int(p.name) for p in (workdir / "checkpoints").iterdir())


def wait_for(process, condition, timeout=200):
  """Until the condition holds or the process has ended."""
  deadline = time.monotonic() + timeout
  while process.poll() is None and time.monotonic() < deadline:
    if condition():
      return
    time.sleep(0.005)


def wait_for_step(process, workdir, step):
  def reached():
    written = lines(workdir)
    return bool(written) and written[-1]["step"] >= step

  wait_for(process, reached)
