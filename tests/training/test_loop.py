"""What a run keeps when one of its evaluations fails."""

import io

import jax
import numpy as np
import pytest
from PIL import Image

from tests import experiments
from tests.faults import runs
from vit_jax.errors import UserError
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.train import train
from vit_jax.training import evaluation


def picture(number):
  pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, "PNG")
  return file.getvalue()


@pytest.fixture
def photos(tmp_path):
  """Eight pictures of four classes, one of which can be damaged."""
  for number in range(8):
    path = tmp_path / f"photos/test/{number % 4}/{number}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(number))
  return tmp_path / "photos"


def config(photos, **changes):
  changes = {"checkpoint__every_steps": 100} | changes
  return experiments.config(
    data_dir=str(photos),
    evals__test__dataset="folder",
    evals__test__split="test",
    evals__test__preprocess="decode|resize(8)",
    model__dropout_rate=0.1,
    **changes,
  )


def test_a_failed_evaluation_loses_no_step(photos, tmp_path):
  assert train(config(photos), str(tmp_path / "whole")) == 0
  damaged = photos / "test/1/5.png"
  damaged.write_bytes(picture(5)[:90])
  workdir = tmp_path / "run"
  for _ in range(2):  # The second start is at that evaluation at once.
    with pytest.raises(UserError, match=r"5\.png \(damaged|5\.png.*cut"):
      train(config(photos), str(workdir))
    assert runs.saved_steps(workdir) == [3]
    steps = [line["step"] for line in runs.lines(workdir)]
    assert steps == [1, 2, 3]
    assert not [n for _, n in runs.values(workdir) if n.startswith("eval/")]
  damaged.write_bytes(picture(5))
  assert train(config(photos), str(workdir)) == 0
  assert runs.values(workdir) == runs.values(tmp_path / "whole")


def test_a_run_goes_on_without_the_evaluator_that_fails(photos, tmp_path):
  (photos / "test/1/5.png").write_bytes(picture(5)[:90])
  workdir = tmp_path / "run"
  with pytest.raises(UserError):
    train(config(photos), str(workdir))
  assert train(config(photos, evals={}), str(workdir)) == 0
  steps = [line["step"] for line in runs.lines(workdir)]
  assert [s for s in steps if s <= 6] == [1, 2, 3, 4, 5, 6]


def test_of_several_processes_none_waits_for_a_save(
  photos, tmp_path, monkeypatch
):
  """Others may be within the evaluation, and never come to the save."""
  (photos / "test/1/5.png").write_bytes(picture(5)[:90])
  run = evaluation.Evaluation.run

  def among_two(self, step, state):
    try:
      run(self, step, state)
    except UserError:
      monkeypatch.setattr(jax, "process_count", lambda: 2)
      raise

  monkeypatch.setattr(evaluation.Evaluation, "run", among_two)
  saved = []
  monkeypatch.setattr(RunDirectory, "save", lambda *a, **_: saved.append(a))
  with pytest.raises(UserError, match=r"5\.png"):
    train(config(photos), str(tmp_path / "run"))
  assert saved == []
