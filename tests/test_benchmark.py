import subprocess
import sys

import pytest


def test_an_unknown_benchmark_is_answered_with_the_known_ones(repo):
  result = subprocess.run(
    [sys.executable, "-m", "vit_jax.benchmark", "inputs"]
    + ["--config=configs/quickstart.py"],
    cwd=repo,
    capture_output=True,
    text=True,
  )
  assert result.returncode == 1
  assert "one of" in result.stderr and "input" in result.stderr
  assert "inputs was given" in result.stderr


def test_a_step_of_several_views_has_no_baseline_and_says_so(repo):
  result = subprocess.run(
    [sys.executable, "-m", "vit_jax.benchmark", "step"]
    + ["--config=configs/dino.py:smoke"],
    cwd=repo,
    capture_output=True,
    text=True,
  )
  assert result.returncode == 1
  assert result.stderr.startswith("error: The plain baseline trains on one")
  assert "config.train.views asks for global_1, global_2" in result.stderr


def test_an_output_that_cannot_be_written_is_told_before_measuring(repo):
  result = subprocess.run(
    [sys.executable, "-m", "vit_jax.benchmark", "step"]
    + ["--config=configs/benchmark.py:smoke", "--output=not/there/a.json"],
    cwd=repo,
    capture_output=True,
    text=True,
  )
  assert result.returncode == 1
  assert result.stderr.startswith("error: --output=not/there/a.json cannot be")
  assert not result.stdout


@pytest.mark.slow
def test_the_step_is_measured_without_tensorflow(repo):
  code = """
import sys

import pytest
absent = ("tensorflow", "tensorflow_datasets", "keras", "array_record")
sys.modules.update(dict.fromkeys(absent))
sys.argv[1:] = ["step", "--config=configs/benchmark.py:smoke", "--rounds=1"]
from vit_jax import benchmark, command_line
benchmark.define_flags()
command_line.run(benchmark.main, config_flag="config")
"""
  result = subprocess.run(
    [sys.executable, "-c", code], cwd=repo, capture_output=True, text=True
  )
  assert result.returncode == 0, result.stderr
  assert result.stdout.startswith("step: ")
  assert "its data pipeline needs tensorflow" in result.stdout
