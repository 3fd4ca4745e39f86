import json
import struct
import zipfile
import zlib

import numpy as np
import pytest

from tests.report import workdirs
from vit_jax import errors
from vit_jax.report import load, render
from vit_jax.report.run import Predictions


def test_a_torn_last_line_is_left_out(finished):
  path = finished / "metrics.jsonl"
  whole = load.load_run(finished).series("train/loss")
  path.write_bytes(path.read_bytes() + b'{"step": 1510, "train/lo')
  torn = load.load_run(finished).series("train/loss")
  np.testing.assert_array_equal(torn.steps, whole.steps)
  np.testing.assert_array_equal(torn.values, whole.values)


def test_the_last_of_two_lines_with_one_step_counts(tmp_path):
  records = [
    {"step": 10, "train/loss": 2.0},
    {"step": 20, "train/loss": 1.0},
    {"step": 10, "train/loss": 1.5},
  ]
  run = load.load_run(workdirs.write_run(tmp_path, records=records))
  series = run.series("train/loss")
  assert series.steps.tolist() == [10, 20]
  assert series.values.tolist() == [1.5, 1.0]
  assert run.metrics()["train/loss"] == 1.0


@pytest.mark.parametrize("word", ["null", "NaN", "Infinity"])
def test_values_that_are_not_finite_are_kept_as_such(tmp_path, word):
  workdir = workdirs.write_run(tmp_path)
  lines = f'{{"step": 1, "train/loss": 2}}\n{{"step": 2, "train/loss": {word}}}'
  (workdir / "metrics.jsonl").write_text(lines)
  series = load.load_run(workdir).series("train/loss")
  assert len(series) == 2 and len(series.finite) == 1
  assert not np.isfinite(series.values[1])


def test_the_newest_complete_evaluation_is_read(finished):
  workdirs.write_outcomes(finished, step=500, num_examples=30)
  (finished / "evaluations/test/2000.tmp").mkdir()
  (evaluation,) = load.load_run(finished).evaluations
  assert evaluation.step == 1500
  assert len(evaluation.predictions) == 450
  assert evaluation.confusion.sum() == 450


def test_evaluations_after_the_last_line_are_of_a_run_that_was_here_before(
  finished,
):
  """One that was started again from an earlier step, or from the beginning."""
  workdirs.write_outcomes(finished, step=500, num_examples=30)
  lines = workdirs.learning_records(total_steps=1000)
  workdirs.write_run(finished, records=lines)
  (evaluation,) = load.load_run(finished).evaluations
  assert evaluation.step == 500
  assert len(evaluation.predictions) == 30
  workdirs.write_run(finished, records=lines[:20])
  assert load.load_run(finished).evaluations == ()


def test_evaluators_come_in_the_order_of_the_config(tmp_path):
  evals = {name: {"type": "classification"} for name in ("val", "real")}
  config = workdirs.CONFIG | {"evals": evals}
  workdir = workdirs.write_run(tmp_path, config=config)
  for name in ("another", "real", "val"):
    workdirs.write_outcomes(workdir, name=name, num_examples=30)
  names = [e.name for e in load.load_run(workdir).evaluations]
  assert names == ["val", "real", "another"]


def test_a_prediction_in_the_label_set_is_right():
  predictions = Predictions(
    example_id=np.arange(3),
    labels=np.array([[1, 2], [3, -1], [4, 5]]),
    prediction=np.array([2, 1, 4]),
    probability=np.ones(3),
  )
  assert predictions.correct.tolist() == [True, False, True]


def test_pickled_arrays_are_refused(finished):
  path = finished / "evaluations/test/1500/confusion.npz"
  np.savez(path, counts=np.array([{"a": 1}], dtype=object))
  run = load.load_run(finished)
  assert run.evaluations[0].confusion is None
  assert any("confusion.npz" in note for note in run.notes)


@pytest.mark.parametrize(
  "name", ["predictions.npz", "confusion.npz", "classes.json", "examples.json"]
)
@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 torn"])
def test_a_damaged_file_costs_its_part_only(finished, name, content):
  path = finished / "evaluations/test/1500" / name
  if content is None:
    path.unlink()
  else:
    path.write_bytes(content)
  run = load.load_run(finished)
  assert run.evaluations[0].step == 1500
  assert len(run.series("train/loss")) == 150


def test_arrays_that_cannot_be_unpacked_are_noted(finished):
  path = finished / "evaluations/test/1500/predictions.npz"
  np.savez_compressed(path, **np.load(path))  # As evaluators write it.
  with zipfile.ZipFile(path) as archive:
    header = archive.infolist()[0].header_offset
  data = bytearray(path.read_bytes())
  # The compressed bytes follow 30 bytes, a name and what stands beside it.
  start = header + 30 + sum(struct.unpack_from("<HH", data, header + 26))
  data[start : start + 40] = b"\xff" * 40
  path.write_bytes(data)
  with pytest.raises(zlib.error), np.load(path) as arrays:
    dict(arrays)
  run = load.load_run(finished)
  assert run.evaluations[0].predictions is None
  assert any("test/predictions.npz: Error -3" in note for note in run.notes)
  assert "test/predictions.npz: Error -3" in render.render(run)


@pytest.mark.parametrize(
  "error", [zlib.error, struct.error, KeyError, NotImplementedError, TypeError]
)
def test_whatever_damage_numpy_meets_is_noted(finished, error, monkeypatch):
  def damaged(*arguments, **options):
    raise error()

  monkeypatch.setattr(np, "load", damaged)
  run = load.load_run(finished)
  assert f"test/predictions.npz: {error.__name__}" in " ".join(run.notes)


def test_only_png_files_inside_the_evaluation_are_embedded(finished):
  directory = finished / "evaluations/test/1500"
  (directory / "images/fake.png").write_text("not an image")
  outside = finished / "outside.png"
  outside.write_bytes(workdirs.png(np.zeros((2, 2), np.uint8)))
  entry = json.loads((directory / "examples.json").read_text())[0]
  names = ["images/fake.png", "../../../outside.png", str(outside), "gone.png"]
  entries = [entry | {"image": name} for name in names]
  (directory / "examples.json").write_text(json.dumps(entries))
  (evaluation,) = load.load_run(finished).evaluations
  assert [e.image for e in evaluation.examples] == [None] * 4


def test_a_directory_without_a_run_is_named(tmp_path):
  with pytest.raises(errors.UserError, match="no_such_run"):
    load.load_run(tmp_path / "no_such_run")
  with pytest.raises(errors.UserError, match="holds no config.json"):
    load.load_run(tmp_path)


def test_evaluators_of_an_older_run_declare_themselves(finished):
  whole = load.load_run(finished).evaluators
  (finished / "evaluators.json").unlink()
  assert whole and load.load_run(finished).evaluators == whole
