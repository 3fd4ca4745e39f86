import subprocess
import sys


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
