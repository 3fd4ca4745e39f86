"""Suggestions of values near those that cannot be used."""

import difflib
from collections.abc import Iterable


def did_you_mean(
  name: str, known: Iterable[str], cutoff: float = 0.4
) -> str | None:
  """Returns the known name most like `name`, ignoring case, or None.

  `cutoff` is the minimum similarity of a suggestion, from 0 (always one) to 1.
  """
  lower = {one.lower(): one for one in known}
  close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=cutoff)
  return lower[close[0]] if close else None


def nearest_multiples(value: int, of: int) -> str:
  """Names the multiples of a number below and above a value: '8 or 12'."""
  below = value // of * of
  return f"{below} or {below + of}" if below else f"{of}"
