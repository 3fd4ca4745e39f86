"""Runs that predict numbers lose nothing when they are killed, and need not be
one process.

Of an imbalanced folder, so do runs that draw its classes equally often.
"""

import csv
import signal

import numpy as np
import pytest
from PIL import Image

from launch import processes
from tests.faults import runs

OPTIONS = {
  "checkpoint.every_steps": 6,
  "evals.test.every_steps": 10,
  "model.dropout_rate": 0.1,
  "objective.mixup_alpha": 0.2,
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
  """A folder of classes of 30 and 6 images, and their CSV file of numbers."""
  folder = tmp_path_factory.mktemp("pictures")
  rng = np.random.default_rng(0)
  rows = [("image", "light", "split")]
  for split in ("train", "test"):
    for name, count in (("many", 30), ("few", 6)):
      for number in range(count):
        path = folder / split / name / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        light = rng.uniform(40, 215)
        pixels = np.clip(rng.normal(light, 20, (8, 8, 3)), 0, 255)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
        rows.append((path.relative_to(folder), f"{light:.3f}", split))
  with (folder / "numbers.csv").open("w", newline="") as file:
    csv.writer(file).writerows(rows)
  return folder


def start(repo, workdir, kind, folder, environment=None):
  if kind == "regression":
    file = "configs/finetune_folder.py:regression,smoke"
    options = {"train.dataset": "csv:numbers.csv,target=light"}
  else:
    file = "configs/finetune_folder.py:smoke"
    options = {"train.dataset": "folder", "train.sampling": "balanced"}
  command = runs.command_of(
    file, workdir, **OPTIONS, **options, data_dir=folder
  )
  return runs.start_command(repo, command, environment)


@pytest.fixture(scope="module", params=["regression", "balanced"])
def whole(request, repo, pictures, tmp_path_factory):
  """A kind of run and the values of an undisturbed one."""
  workdir = tmp_path_factory.mktemp("whole")
  runs.end(start(repo, workdir, request.param, pictures))
  return request.param, runs.values(workdir)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_bit_identical_losses_and_metrics(
  repo, tmp_path, pictures, whole
):
  kind, wanted = whole
  process = start(repo, tmp_path, kind, pictures)
  runs.wait_for_step(process, tmp_path, 7)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  runs.end(start(repo, tmp_path, kind, pictures))
  assert runs.values(tmp_path) == wanted


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(repo, tmp_path, pictures, whole):
  kind, wanted = whole
  started = [
    start(repo, tmp_path, kind, pictures, environment)
    for environment in processes.environments(2, 2)
  ]
  for process in started:
    runs.end(process)
  found = runs.values(tmp_path)
  assert found.keys() == wanted.keys()
  for key, value in wanted.items():
    np.testing.assert_allclose(
      found[key], value, rtol=5e-5, atol=1e-6, err_msg=str(key)
    )
