"""Suggestions for misspelt names."""

import difflib
from collections.abc import Iterable


def did_you_mean(
  name: str, known: Iterable[str], cutoff: float = 0.4
) -> str | None:
  """The known name most like `name`, letter case aside.

  Args:
    name: As the user wrote it.
    known: Names that exist.
    cutoff: Least similarity of a suggestion, from 0 (always one) to 1.

  Returns:
    The nearest known name, or None if none is similar enough.
  """
  lower = {one.lower(): one for one in known}
  close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=cutoff)
  return lower[close[0]] if close else None
