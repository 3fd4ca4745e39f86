"""Numbers of images in split strings, from published sizes."""

import re

from vit_jax.paper.datasets import DATASETS

_PIECE = re.compile(r"(?P<name>\w+)(?:\[(?P<start>\d+%?)?:(?P<stop>\d+%?)?\])?")


def count(dataset: str, split: str) -> int | None:
  """Counts a split like 'train[:9000000]' or 'train[:25%]+test'.

  Args:
    dataset: TFDS name.
    split: Split string, sliced from the start; percentages are rounded.

  Returns:
    Number of images; None if it depends on an unknown dataset size, or the
    string has another form.
  """
  known = DATASETS.get(dataset)
  sizes = known.num_examples if known else {}
  total = 0
  for piece in split.split("+"):
    match = _PIECE.fullmatch(piece.strip())
    if match is None:
      return None
    size = sizes.get(match["name"])
    start = _place(match["start"] or "0", size)
    stop = _place(match["stop"] or "100%", size)
    if start is None or stop is None or stop < start:
      return None
    total += stop - start
  return total


def _place(word: str, size: int | None) -> int | None:
  """Returns a slice's start or end, at most the split's size."""
  if not word.endswith("%"):
    return int(word) if size is None else min(int(word), size)
  return None if size is None else round(int(word[:-1]) * size / 100)
