"""Signs of life: a count that grows as long as a run gets on."""

import itertools

_beats = itertools.count(1)
_latest = 0


def beat() -> None:
  """Records that something was done; any thread may call it."""
  global _latest
  _latest = next(_beats)


def count() -> int:
  """Beats so far."""
  return _latest
