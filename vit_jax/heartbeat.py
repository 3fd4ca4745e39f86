"""Signs of life: a counter that grows as long as a run makes progress."""

import itertools

_beats = itertools.count(1)
_latest = 0


def beat() -> None:
  """Records progress; may be called from any thread."""
  global _latest
  _latest = next(_beats)


def count() -> int:
  """Returns the number of beats so far."""
  return _latest
