"""Two processes replace and count the same broken images as one does."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from launch import processes
from vit_jax import records

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
  """32 images for training, three of them broken, and 8 for testing."""
  rng = np.random.default_rng(0)
  for split, count in (("train", 32), ("test", 8)):
    for i in range(count):
      path = tmp_path / "data" / split / "ab"[i % 2] / f"{i}.png"
      path.parent.mkdir(parents=True, exist_ok=True)
      Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(path)
  for name in ("a/4", "a/20", "b/9"):
    path = tmp_path / "data" / "train" / f"{name}.png"
    path.write_bytes(path.read_bytes()[:60])
  return tmp_path / "data"


def start(repo, folder, workdir, allowed, **environment):
  options = {
    "train.dataset": "folder",
    "data_dir": folder,
    "train.max_bad_examples": allowed,
    "train.batch_size": 8,
    "optimizer.name": "sgd",
    "total_steps": 6,
  }
  return subprocess.Popen(
    [
      sys.executable,
      "-m",
      "vit_jax.train",
      "--config=configs/quickstart.py:smoke",
      f"--workdir={workdir}",
      *(f"--config.{key}={value}" for key, value in options.items()),
    ],
    cwd=repo,
    env={**os.environ, **environment},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def start_two(repo, folder, workdir, allowed):
  return [
    start(repo, folder, workdir, allowed, **environment)
    for environment in processes.environments(2, 1)
  ]


def metrics(workdir):
  return [
    {k: v for k, v in line.items() if not k.startswith("perf/")}
    for line in records.read_lines(workdir / "metrics.jsonl")
  ]


def test_two_processes_log_what_one_does(repo, folder, tmp_path):
  for process in start_two(repo, folder, tmp_path / "two", allowed=3):
    _, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
  alone = start(
    repo, folder, tmp_path / "one", allowed=3, JAX_NUM_CPU_DEVICES="2"
  )
  _, err = alone.communicate(timeout=280)
  assert alone.returncode == 0, err
  two, one = metrics(tmp_path / "two"), metrics(tmp_path / "one")
  assert len(two) == len(one) > 6
  for mine, theirs in zip(two, one, strict=True):
    assert mine == pytest.approx(theirs, rel=1e-5)
  counts = [x["data/bad_examples"] for x in two if "data/bad_examples" in x]
  assert counts[-1] == 3


def test_what_is_too_much_for_both_together_ends_both(repo, folder, tmp_path):
  """Neither process alone meets more than it may."""
  both = start_two(repo, folder, tmp_path, allowed=2)
  errors = [process.communicate(timeout=280)[1] for process in both]
  assert [process.returncode for process in both] == [1, 1], errors
  for err in errors:
    assert "3 examples could not be used" in err
