"""Truncation of long lists in messages."""

from collections.abc import Sequence


def first(texts: Sequence[str], count: int = 20, separator: str = ", ") -> str:
  """Joins the first `count` texts and counts the others: 'a, b and 7 more'."""
  more = len(texts) - count
  # 'a; b; and 7 more', so that texts containing commas are separated.
  rest = f"{separator.rstrip(', ')} and {more} more" if more > 0 else ""
  return separator.join(texts[:count]) + rest
