"""The directory an evaluation leaves: whole or not at all."""

import json

import numpy as np
from etils import epath
from sklearn import metrics

from vit_jax.evaluators import files, gallery


class _Gallery(gallery.Gallery):
  mistakes = [3]

  def __init__(self):
    self.samples = [0, 2, 4]

  def png(self, example):
    return b"png %d" % example


def _write(path, **changes):
  label = np.array([0, 1, 2, 1])
  arguments = dict(
    example_id=np.array([0, 1, 2, 3]),
    label=label,
    prediction=np.array([0, 1, 2, 0]),
    probability=np.array([0.5, 0.75, np.nan, 0.25], np.float32),
    num_classes=3,
    class_names=["ant", "bee", "cow"],
    gallery=_Gallery(),
    names=lambda ids: [f"photos/{i}.jpg" for i in ids],
  )
  files.write(epath.Path(path), **(arguments | changes))


def test_directory_holds_what_the_report_reads(tmp_path):
  path = tmp_path / "evaluations" / "test" / "30"
  _write(path)
  assert sorted(p.name for p in path.iterdir()) == [
    "classes.json",
    "confusion.npz",
    "examples.json",
    "images",
    "mistakes.csv",
    "predictions.npz",
  ]
  arrays = np.load(path / "predictions.npz")
  assert {key: arrays[key].dtype.name for key in arrays} == {
    "example_id": "int64",
    "label": "int32",
    "prediction": "int32",
    "probability": "float32",
  }
  counts = np.load(path / "confusion.npz")["counts"]
  np.testing.assert_array_equal(counts, [[1, 0, 0], [1, 1, 0], [0, 0, 1]])
  assert json.loads((path / "classes.json").read_text()) == [
    "ant",
    "bee",
    "cow",
  ]


def test_examples_name_their_image_and_kind(tmp_path):
  _write(tmp_path / "test" / "30")
  path = tmp_path / "test" / "30"
  entries = json.loads((path / "examples.json").read_text())
  # Example 4 has no label, so it is in no figure.
  assert [(e["id"], e["kind"]) for e in entries] == [
    (0, "sample"),
    (2, "sample"),
    (3, "mistake"),
  ]
  assert entries[2] == {
    "id": 3,
    "image": "images/3.png",
    "label": 1,
    "prediction": 0,
    "probability": 0.25,
    "kind": "mistake",
    "name": "photos/3.jpg",
    "has_all_labels": False,
  }
  assert entries[1]["probability"] == 0
  assert (path / "images/3.png").read_bytes() == b"png 3"
  assert not (path / "images/4.png").exists()


def test_every_mistake_is_a_row_the_most_confident_first(tmp_path):
  _write(tmp_path / "1", prediction=np.array([2, 1, 2, 0]))
  assert (tmp_path / "1" / "mistakes.csv").read_text() == (
    "name,truth,prediction,probability\n"
    "photos/0.jpg,ant,cow,0.5000\n"
    "photos/3.jpg,bee,ant,0.2500\n"
  )
  _write(tmp_path / "2", label=np.array([[1, 2], [1, -1], [-1, 2], [1, 0]]))
  assert (tmp_path / "2" / "mistakes.csv").read_text() == (
    "name,truth,prediction,probability\nphotos/0.jpg,bee or cow,ant,0.5000\n"
  )


def test_labels_that_are_all_true_are_said_to_be(tmp_path):
  sets = np.array([[1, 2], [1, -1], [-1, 2], [1, 0]])
  _write(tmp_path / "1", label=sets, has_all_labels=True)
  assert "bee and cow,ant" in (tmp_path / "1" / "mistakes.csv").read_text()
  entries = json.loads((tmp_path / "1" / "examples.json").read_text())
  assert all(entry["has_all_labels"] for entry in entries)


def test_names_of_files_may_have_any_bytes(tmp_path):
  odd = b"caf\xe9.jpg".decode(errors="surrogateescape")
  _write(
    tmp_path / "1",
    prediction=np.array([2, 1, 2, 0]),
    names=lambda ids: [odd for _ in ids],
  )
  assert (
    "caf\ufffd.jpg,ant,cow" in (tmp_path / "1" / "mistakes.csv").read_text()
  )


def test_names_of_classes_may_have_halves_of_characters(tmp_path):
  names = json.loads(r'["ant", "\ud83d bee", "cow"]')
  prediction = np.array([1, 0, 2, 0])
  _write(tmp_path / "1", prediction=prediction, class_names=names)
  rows = (tmp_path / "1" / "mistakes.csv").read_text(encoding="utf-8")
  assert ",ant,\ufffd bee,0.5000" in rows
  assert ",\ufffd bee,ant,0.7500" in rows
  assert json.loads((tmp_path / "1" / "classes.json").read_text()) == names


def test_a_class_beyond_the_names_is_a_number(tmp_path):
  _write(tmp_path / "1", prediction=np.array([7, 1, 2, 1]), num_classes=8)
  assert ",ant,7," in (tmp_path / "1" / "mistakes.csv").read_text()


def test_sets_of_labels_are_lists_and_have_no_confusion_counts(tmp_path):
  path = tmp_path / "real" / "1"
  _write(path, label=np.array([[0, 1], [1, -1], [-1, 2], [1, 2]]))
  entries = json.loads((path / "examples.json").read_text())
  assert [e["label"] for e in entries] == [[0, 1], [2], [1, 2]]
  assert not (path / "confusion.npz").exists()


def test_many_classes_have_no_confusion_counts(tmp_path):
  _write(tmp_path / "256", num_classes=256)
  _write(tmp_path / "257", num_classes=257)
  assert (tmp_path / "256" / "confusion.npz").exists()
  assert not (tmp_path / "257" / "confusion.npz").exists()


def test_unknown_class_names_are_null(tmp_path):
  _write(tmp_path / "1", class_names=None)
  assert json.loads((tmp_path / "1" / "classes.json").read_text()) is None


def test_failed_write_is_an_alarm_and_leaves_nothing(tmp_path, caplog):
  class Failing(_Gallery):
    def png(self, example):
      raise OSError("disk full")

  path = tmp_path / "test" / "30"
  _write(path, gallery=Failing())
  assert f"ALARM: {path} could not be written: disk full" in caplog.text
  assert list(path.parent.iterdir()) == []
  _write(path.parent / "40")
  assert [p.name for p in path.parent.iterdir()] == ["40"]


def test_repeated_step_replaces_the_earlier_files(tmp_path):
  path = tmp_path / "test" / "30"
  _write(path)
  _write(path, prediction=np.array([2, 2, 2, 2]))
  arrays = np.load(path / "predictions.npz")
  np.testing.assert_array_equal(arrays["prediction"], 2)
  assert [p.name for p in path.parent.iterdir()] == ["30"]


def test_equal_evaluations_write_equal_bytes(tmp_path):
  _write(tmp_path / "a" / "1")
  _write(tmp_path / "b" / "1")
  for file in (tmp_path / "a" / "1").rglob("*.*"):
    twin = tmp_path / "b" / file.relative_to(tmp_path / "a")
    assert file.read_bytes() == twin.read_bytes()


def test_confusion_equals_that_of_scikit_learn():
  rng = np.random.default_rng(0)
  label, prediction = rng.integers(0, 9, (2, 500))
  np.testing.assert_array_equal(
    files.confusion(label, prediction, num_classes=9),
    metrics.confusion_matrix(label, prediction),
  )
