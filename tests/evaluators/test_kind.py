"""Evaluators that are registered from outside the package."""

import subprocess
import sys

import pytest

from vit_jax import records

_CONFIG = """
from vit_jax.config import defaults, smoke

def get_config():
  config = defaults.default_config("tests.evaluators.toy")
  config.evals.size = defaults.default_eval(type="toy", scale=0.5)
  return smoke.shrink(config)
"""


@pytest.mark.slow
def test_an_evaluator_from_outside_runs_and_is_reported(repo, tmp_path):
  config, workdir = tmp_path / "experiment.py", tmp_path / "run"
  config.write_text(_CONFIG)
  command = ["-m", "vit_jax.train", f"--config={config}"]
  run = subprocess.run(
    [sys.executable, *command, f"--workdir={workdir}"],
    capture_output=True,
    text=True,
    cwd=repo,
  )
  assert run.returncode == 0, run.stderr[-2000:]
  lines = records.read_lines(workdir / "metrics.jsonl")
  assert [x["step"] for x in lines if "toy/size/norm" in x] == [2, 4]
  page = (workdir / "report" / "index.html").read_text()
  assert "The sum of all magnitudes, times 0.5." in page
  assert "Toy: norm" in page
