"""Long lists in messages, cut after the first few."""

from collections.abc import Sequence


def first(texts: Sequence[str], count: int = 20, separator: str = ", ") -> str:
  """'a, b, c and 7 more': the first `count` texts, and the number of others."""
  more = len(texts) - count
  # 'a; b; and 7 more', as texts that hold commas are set apart.
  rest = f"{separator.rstrip(', ')} and {more} more" if more > 0 else ""
  return separator.join(texts[:count]) + rest
