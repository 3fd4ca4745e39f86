"""Comparison of a checkpoint's class names with those of a dataset."""

import collections
import re
from collections.abc import Sequence

from vit_jax import truncate

_SHOWN = 3
# Names of ImageNet's folders, and names that only count.
_WORDNET = re.compile(r"n\d{8}")
_NUMBER = re.compile(r"(LABEL_)?\d+")


def difference(
  data: Sequence[str] | None, found: Sequence[str] | None
) -> str | None:
  """Describes how two lists of names contradict each other.

  Args:
    data: Names in the order of the dataset's labels; None if unknown.
    found: Names in the order of the checkpoint's classes; None if unknown.

  Returns:
    The end of a sentence about the checkpoint, with examples of both lists;
    None if a list is unknown, if the two are of different kinds (words, codes
    such as n01440764, numbers), or if some names agree and none of those that
    occur once in both has another number.
  """
  if data is None or found is None or list(data) == list(found):
    return None
  both = unique(data) & unique(found)
  if not both and (
    _are(_NUMBER, data)
    or _are(_NUMBER, found)
    or _are(_WORDNET, data) != _are(_WORDNET, found)
  ):
    return None
  if not both:
    return (
      f"has classes with other names ({truncate.first(found, _SHOWN)}) than"
      f" those of the data ({truncate.first(data, _SHOWN)})"
    )
  places = {name: place for place, name in enumerate(found)}
  for label, name in enumerate(data):
    if name in both and places[name] != label:
      return (
        f"numbers its classes ({truncate.first(found, _SHOWN)}) differently"
        f" from the data ({truncate.first(data, _SHOWN)}): {name!r} is class"
        f" {places[name]} there and class {label} here"
      )
  return None


def _are(kind: re.Pattern[str], names: Sequence[str]) -> bool:
  return all(map(kind.fullmatch, names))


def unique(names: Sequence[str]) -> set[str]:
  """Returns the names that occur once."""
  counts = collections.Counter(names)
  return {name for name, count in counts.items() if count == 1}
