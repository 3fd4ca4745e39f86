"""Draws of few-shot support sets from the examples of a training split."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


class ExamplesError(ValueError):
  """The examples do not allow the measurement; the message says why.

  It is a separate class because jax also raises `ValueError`, for example for a
  lost process of the run.
  """


def class_permutations(
  labels: Int[np.ndarray, " n"], *, num_classes: int, seed: int
) -> list[Int[np.ndarray, " _"]]:
  """Returns the rows of each class, shuffled.

  One generator permutes the classes in turn, so that the same seed and labels
  give the same sets as in big_vision.
  """
  rng = np.random.default_rng(seed)
  return [
    rng.permutation(np.flatnonzero(labels == label))
    for label in range(num_classes)
  ]


def support_set(
  permutations: Sequence[Int[np.ndarray, " _"]], shots: int
) -> Int[np.ndarray, " n"]:
  """Returns the first `shots` rows of each class, so sets are nested."""
  return np.concatenate([rows[:shots] for rows in permutations])


def held_out_set(
  permutations: Sequence[Int[np.ndarray, " _"]], shots: int
) -> Int[np.ndarray, " n"]:
  """Returns up to `shots` rows of each class after its first `shots`.

  With the largest number of shots this is disjoint from every support set of
  the same permutations, and no larger than the largest of them.
  """
  return np.concatenate([rows[shots : 2 * shots] for rows in permutations])


def require_shots(
  labels: Int[np.ndarray, " n"],
  *,
  num_classes: int,
  shots: int,
  class_names: Sequence[str] | None = None,
) -> None:
  """Checks that every class has `shots` examples.

  Raises:
    ExamplesError: A class has fewer; the message names the first one.
  """
  counts = np.bincount(labels, minlength=num_classes)
  short = np.flatnonzero(counts < shots)
  if short.size:
    first = int(short[0])
    name = f" ({class_names[first]!r})" if class_names else ""
    others = f" So have {short.size - 1} more classes." * (short.size > 1)
    raise ExamplesError(
      f"Class {first}{name} has {counts[first]} examples, fewer than the"
      f" {shots} shots asked for.{others}"
    )


def require_classes(*labels: Int[np.ndarray, " _"], num_classes: int) -> None:
  """Raises ExamplesError naming a label that is not in 0..num_classes-1."""
  for some in labels:
    wrong = some[(some < 0) | (some >= num_classes)]
    if wrong.size:
      raise ExamplesError(
        f"Label {wrong[0]} is outside 0..{num_classes - 1}, the range for"
        f" num_classes = {num_classes}."
      )
