"""The directory that a regression evaluator writes for the report."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Float, Int

from vit_jax import records
from vit_jax.evaluators import files
from vit_jax.evaluators.gallery import Gallery
from vit_jax.printable import in_utf8

FILE = "regression.json"


def write(
  path: epath.Path,
  *,
  example_id: Int[np.ndarray, " n"],
  label: Float[np.ndarray, "n numbers"],
  prediction: Float[np.ndarray, "n numbers"],
  distance: Float[np.ndarray, " n"],
  numbers: Sequence[str],
  gallery: Gallery,
  names: Callable[[Int[np.ndarray, " n"]], Sequence[str]],
) -> None:
  """Writes all predictions, and a few images with their predictions.

  Every example is a row of `predictions.csv`, worst first. All files appear at
  once; see `files.replacing`.

  Args:
    path: `evaluations/<name>/<step>`.
    example_id: Ascending ids of the examples.
    label: Their numbers.
    prediction: Predicted numbers.
    distance: Distance of predictions from labels.
    numbers: Names of the numbers.
    gallery: Images of samples and of the worst predictions.
    names: `names(ids)`, human-readable names of files or records.
  """
  row_of = {int(example): row for row, example in enumerate(example_id)}
  chosen = [(example, "sample") for example in gallery.samples]
  chosen += [(example, "mistake") for example in gallery.mistakes]
  shown = names(np.array([example for example, _ in chosen], np.int64))
  with files.replacing(path) as partial:
    files.write_arrays(
      partial / "predictions.npz",
      example_id=example_id.astype(np.int64),
      label=label.astype(np.float32),
      prediction=prediction.astype(np.float32),
    )
    for example in {example for example, _ in chosen}:
      (partial / _image(example)).write_bytes(gallery.png(example))
    examples = [
      {
        "id": example,
        "image": _image(example),
        "name": in_utf8(name),
        "kind": kind,
        "label": _json(label[row_of[example]]),
        "prediction": _json(prediction[row_of[example]]),
      }
      for (example, kind), name in zip(chosen, shown, strict=True)
    ]
    records.write_json(
      partial / FILE, {"numbers": list(numbers), "examples": examples}
    )
    order = np.argsort(-distance, kind="stable")
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("name", *map(in_utf8, _heads(numbers))))
    for row, name in zip(order, names(example_id[order]), strict=True):
      pairs = zip(label[row], prediction[row], strict=True)
      cells = (f"{value:.7g}" for pair in pairs for value in pair)
      table.writerow((in_utf8(name), *cells))
    (partial / "predictions.csv").write_text(text.getvalue())


def _heads(numbers: Sequence[str]) -> Iterator[str]:
  for number in numbers:
    yield from (number, f"{number}, predicted")


def _json(values: Float[np.ndarray, " numbers"]) -> list[Any]:
  """Converts numbers for JSON, which has no NaN."""
  return [float(x) if np.isfinite(x) else None for x in values]


def _image(example: int) -> str:
  return f"images/{example}.png"
