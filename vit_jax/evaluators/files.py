"""The directory that a classification evaluation writes for the report."""

import contextlib
import csv
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Float, Int

from vit_jax.evaluators.gallery import Gallery
from vit_jax.printable import in_utf8

MAX_CONFUSION_CLASSES = 256
_logger = logging.getLogger(__name__)


def write(
  path: epath.Path,
  *,
  example_id: Int[np.ndarray, " n"],
  label: Int[np.ndarray, " n"] | Int[np.ndarray, "n l"],
  prediction: Int[np.ndarray, " n"],
  probability: Float[np.ndarray, " n"],
  num_classes: int,
  class_names: Sequence[str] | None,
  gallery: Gallery,
  names: Callable[[Int[np.ndarray, " n"]], Sequence[str]],
  has_all_labels: bool = False,
) -> None:
  """Writes predictions, confusion counts, class names and a few images.

  Each mistake is a row of `mistakes.csv`, the most confident first.

  All files appear at once: they are written to a directory next to `path`,
  which is then renamed to it, replacing any earlier one; see `replacing`.

  Args:
    path: `evaluations/<name>/<step>`.
    example_id: Ascending ids of the examples that have a label.
    label: Their classes, or sets of classes padded with -1.
    prediction: Predicted classes.
    probability: Probability of the prediction.
    num_classes: Number of rows and columns of the confusion counts.
    class_names: Names of the classes, if known.
    gallery: Images of samples and mistakes.
    names: `names(ids)`, human-readable names of files or records.
    has_all_labels: True if sets contain all that an image shows, False if any
      class of a set is correct.
  """
  with replacing(path) as partial:
    write_arrays(
      partial / "predictions.npz",
      example_id=example_id.astype(np.int64),
      label=label.astype(np.int32),
      prediction=prediction.astype(np.int32),
      probability=probability.astype(np.float32),
    )
    if label.ndim == 1 and num_classes <= MAX_CONFUSION_CLASSES:
      counts = confusion(label, prediction, num_classes=num_classes)
      write_arrays(partial / "confusion.npz", counts=counts)
    _write_json(
      partial / "classes.json", list(class_names) if class_names else None
    )
    row_of = {int(example): row for row, example in enumerate(example_id)}
    chosen = [(example, "sample") for example in gallery.samples]
    chosen += [(example, "mistake") for example in gallery.mistakes]
    # An example without a label appears in no figure.
    chosen = [(example, kind) for example, kind in chosen if example in row_of]
    for example in {example for example, _ in chosen}:
      (partial / _image(example)).write_bytes(gallery.png(example))
    entries = [
      _entry(example, kind, label, prediction, probability, row_of)
      for example, kind in chosen
    ]
    shown = names(np.array([entry["id"] for entry in entries], np.int64))
    for entry, name in zip(entries, shown, strict=True):
      entry["name"] = in_utf8(name)
      entry["has_all_labels"] = has_all_labels
    _write_json(partial / "examples.json", entries)
    _write_mistakes(
      partial / "mistakes.csv",
      example_id,
      label,
      prediction,
      probability,
      class_names,
      names,
      " and " if has_all_labels else " or ",
    )


def _write_mistakes(
  path: epath.Path,
  example_id: np.ndarray,
  label: np.ndarray,
  prediction: np.ndarray,
  probability: np.ndarray,
  class_names: Sequence[str] | None,
  names: Callable[[np.ndarray], Sequence[str]],
  between: str,
) -> None:
  accepted = label.reshape(len(label), -1)
  wrong = np.flatnonzero((accepted != prediction[:, None]).all(axis=1))
  wrong = wrong[np.argsort(-probability[wrong], kind="stable")]
  text = io.StringIO()
  table = csv.writer(text, lineterminator="\n")
  table.writerow(("name", "truth", "prediction", "probability"))
  for row, name in zip(wrong, names(example_id[wrong]), strict=True):
    labels = [int(k) for k in (*accepted[row], prediction[row]) if k >= 0]
    *truth, taken_for = (
      in_utf8(class_names[k])
      if class_names and k < len(class_names)
      else str(k)
      for k in labels
    )
    value = f"{probability[row]:.4f}"
    table.writerow((in_utf8(name), between.join(truth), taken_for, value))
  path.write_text(text.getvalue())


@contextlib.contextmanager
def replacing(path: epath.Path) -> Iterator[epath.Path]:
  """Yields a directory that is renamed to `path` once it is complete.

  It contains an empty `images`. If the disk is full, the written files are
  lost, this is logged, and the run continues.
  """
  _remove_leftovers(path)  # From a killed process.
  partial = path.parent / f"{path.name}.tmp"
  try:
    (partial / "images").mkdir(parents=True)
    yield partial
    if path.exists():
      path.rename(path.parent / f"{path.name}.tmp-old")
    partial.rename(path)
  except OSError as error:
    reason = error.strerror or error
    _logger.error("ALARM: %s could not be written: %s.", path, reason)
  _remove_leftovers(path)


def _remove_leftovers(path: epath.Path) -> None:
  for leftover in path.parent.glob("*.tmp*"):
    leftover.rmtree()


def confusion(
  label: Int[np.ndarray, " n"],
  prediction: Int[np.ndarray, " n"],
  *,
  num_classes: int,
) -> Int[np.ndarray, "classes classes"]:
  """Counts (true class, predicted class) pairs; rows are the truth."""
  cells = label.astype(np.int64) * num_classes + prediction
  counts = np.bincount(cells, minlength=num_classes**2)
  return counts.reshape(num_classes, num_classes)


def _entry(
  example: int,
  kind: str,
  label: np.ndarray,
  prediction: np.ndarray,
  probability: np.ndarray,
  row_of: Mapping[int, int],
) -> dict[str, Any]:
  row = row_of[example]
  truth = label[row]
  value = float(probability[row])
  return {
    "id": example,
    "image": _image(example),
    "label": int(truth) if truth.ndim == 0 else truth[truth >= 0].tolist(),
    "prediction": int(prediction[row]),
    # JSON has no NaN.
    "probability": value if np.isfinite(value) else 0.0,
    "kind": kind,
  }


def _image(example: int) -> str:
  return f"images/{example}.png"


def write_arrays(path: epath.Path, **arrays: np.ndarray) -> None:
  """Writes an .npz file."""
  with path.open("wb") as file:
    np.savez_compressed(file, **arrays)


def _write_json(path: epath.Path, value: Any) -> None:
  path.write_text(json.dumps(value) + "\n")
