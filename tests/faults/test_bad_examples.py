"""Runs on an image folder with broken images in it."""

import numpy as np
import pytest
from PIL import Image

from tests import experiments
from vit_jax import records
from vit_jax.errors import UserError
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.train import train


@pytest.fixture
def folder(tmp_path):
  """24 images of two classes."""
  rng = np.random.default_rng(0)
  for i in range(24):
    suffix = "png" if i % 5 == 0 else "jpg"
    path = tmp_path / "data" / "train" / "ab"[i % 2] / f"{i}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(path)
  return tmp_path / "data"


def damage(root):
  """Breaks three images; returns their paths."""
  (root / "train" / "b" / "3.jpg").write_bytes(b"no image at all")
  (root / "train" / "a" / "8.jpg").write_bytes(b"")
  path = root / "train" / "a" / "10.png"
  path.write_bytes(path.read_bytes()[:100])
  return [path, root / "train" / "b" / "3.jpg", root / "train" / "a" / "8.jpg"]


def config(root, **changes):
  settings = {
    "train__dataset": "folder",
    "data_dir": str(root),
    "train__batch_size": 8,
    "train__preprocess": "decode|resize",
    "checkpoint__every_steps": 1,
    "evals": {},
  }
  return experiments.config(**(settings | changes))


def lines(workdir):
  return [
    {k: v for k, v in line.items() if not k.startswith("perf/")}
    for line in records.read_lines(workdir / "metrics.jsonl")
  ]


def test_bad_examples_are_counted_named_and_replaced(folder, tmp_path, caplog):
  bad = damage(folder)
  train(config(folder, train__max_bad_examples=3), str(tmp_path / "run"))
  counts = [line["data/bad_examples"] for line in lines(tmp_path / "run")]
  assert counts == sorted(counts) and len(counts) == 6
  assert counts[2] == 3  # All of them stand in the first epoch.
  for path in bad:
    assert caplog.text.count(str(path)) == 1


@pytest.mark.slow
def test_a_run_with_bad_examples_is_the_same_when_it_is_killed(
  folder, tmp_path, monkeypatch
):
  damage(folder)
  settings = config(folder, train__max_bad_examples=3)
  train(settings, str(tmp_path / "whole"))
  write = RunDirectory.write

  def killed(self, step, metrics):
    if step > 2:
      raise KeyboardInterrupt
    write(self, step, metrics)

  with monkeypatch.context() as context:
    context.setattr(RunDirectory, "write", killed)
    with pytest.raises(KeyboardInterrupt):
      train(settings, str(tmp_path / "parts"))
  train(settings, str(tmp_path / "parts"))
  assert lines(tmp_path / "parts") == lines(tmp_path / "whole")


def test_one_more_than_allowed_ends_the_run_with_their_names(folder, tmp_path):
  bad = damage(folder)
  with pytest.raises(UserError) as error:
    train(config(folder, train__max_bad_examples=2), str(tmp_path / "run"))
  message = str(error.value)
  assert message.startswith("3 ")
  assert all(str(path) in message for path in bad)


@pytest.mark.slow
def test_more_may_be_allowed_when_a_run_goes_on(folder, tmp_path):
  constant = {"schedule__decay": "constant", "schedule__warmup_steps": 0}
  train(config(folder, total_steps=1, **constant), str(tmp_path / "run"))
  damage(folder)
  more = {"train__max_bad_examples": 3, "allow_change": "total_steps"}
  train(config(folder, **more, **constant), str(tmp_path / "run"))
  assert lines(tmp_path / "run")[-1]["data/bad_examples"] == 3
