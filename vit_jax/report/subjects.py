"""Checkpoints to compare, and short names that distinguish them."""

import dataclasses
from collections.abc import Mapping, Sequence

from etils import epath


@dataclasses.dataclass(frozen=True)
class Subject:
  """A checkpoint and its metrics.

  Attributes:
    path: Path as the user gave it.
    model: Name such as 'ViT-B/16'.
    image_size: Side of its images, in pixels.
    num_params: Number of parameters of the model.
    metrics: `step`, if it is known, and the evaluators' metrics.
  """

  path: str
  model: str
  image_size: int
  num_params: int
  metrics: Mapping[str, float | int]


def short_names(paths: Sequence[str]) -> list[str]:
  """Returns the shortest end of each path that distinguishes it.

  A step of a run, RUN/checkpoints/500, becomes 'RUN, step 500'.

  Args:
    paths: Paths to different places.
  """
  words = [_words(path) for path in paths]
  lengths = [1] * len(words)
  while True:
    names = ["/".join(w[-n:]) for w, n in zip(words, lengths, strict=True)]
    grown = [
      n + (names.count(name) > 1 and n < len(w))
      for name, w, n in zip(names, words, lengths, strict=True)
    ]
    if grown == lengths:
      return names
    lengths = grown


def same_place(path: str) -> str:
  """Normalises a path: './a/' is 'a'."""
  return str(epath.Path(path))


def _words(path: str) -> list[str]:
  words = same_place(path).split("/")
  if len(words) > 2 and words[-2] == "checkpoints" and words[-1].isdigit():
    words[-3:] = [f"{words[-3]}, step {words[-1]}"]
  return words
