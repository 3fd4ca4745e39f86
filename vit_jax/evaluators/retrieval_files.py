"""The directory that a retrieval evaluation writes for the report."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from etils import epath
from jaxtyping import Bool

from vit_jax.evaluators import files, gallery
from vit_jax.evaluators.split import Split

if TYPE_CHECKING:
  from vit_jax.evaluators.retrieval import Found

# Queries shown per direction with a right first answer, and as many with a
# wrong one.
NUM_SHOWN = 8
# Answers shown per query.
NUM_ANSWERS = 5


def write(
  path: epath.Path,
  split: Split,
  texts: Sequence[str],
  to_text: "Found",
  to_image: "Found",
) -> None:
  """Writes a few queries with their answers; all files appear at once.

  Args:
    path: `evaluations/<name>/<dataset>/<step>`.
    split: The images.
    texts: All captions.
    to_text: Captions found for each image.
    to_image: Images found for each caption.
  """
  shown = {
    "image_to_text": [
      {"image": int(query), **entry}
      for query, entry in _entries(to_text, lambda row: {"text": texts[row]})
    ],
    "text_to_image": [
      {"text": texts[query], **entry}
      for query, entry in _entries(to_image, lambda row: {"image": row})
    ],
  }
  examples = {entry["image"] for entry in shown["image_to_text"]}
  for entry in shown["text_to_image"]:
    examples |= {answer["image"] for answer in entry["answers"]}
  with files.replacing(path) as partial:
    examples = sorted(examples)
    pixels = split.images(np.array(examples, np.int64))
    for example, image in zip(examples, pixels, strict=True):
      (partial / f"images/{example}.png").write_bytes(
        gallery.encode(gallery.thumbnail(image))
      )
    (partial / "retrieval.json").write_text(json.dumps(shown) + "\n")


def _entries(found: "Found", answer: Any) -> Iterator[tuple[int, Any]]:
  is_right = found.right[:, 0]
  for query in (*_spaced(is_right), *_spaced(~is_right)):
    answers = [
      {
        **answer(int(row)),
        "similarity": float(similarity),
        "right": bool(right),
      }
      for row, similarity, right in zip(
        found.row[query, :NUM_ANSWERS],
        found.similarity[query, :NUM_ANSWERS],
        found.right[query, :NUM_ANSWERS],
        strict=True,
      )
    ]
    yield query, {"right": bool(is_right[query]), "answers": answers}


def _spaced(chosen: Bool[np.ndarray, " n"]) -> list[int]:
  """Returns at most `NUM_SHOWN` of the chosen rows, evenly spaced."""
  rows = np.flatnonzero(chosen)
  if not len(rows):
    return []
  places = np.linspace(0, len(rows) - 1, min(NUM_SHOWN, len(rows)))
  return rows[np.round(places).astype(int)].tolist()
