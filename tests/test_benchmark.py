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
