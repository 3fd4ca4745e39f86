"""Exchanges overlapping with arithmetic, in a program's schedule order."""

import dataclasses
from collections.abc import Hashable


@dataclasses.dataclass
class Timeline:
  """A device that computes while its links are busy with one exchange.

  Exchanges use the links in the order in which they start.

  Attributes:
    now: Seconds since the start of the program.
  """

  now: float = 0.0
  _links_free_at: float = 0.0
  _ends: dict[Hashable, float] = dataclasses.field(default_factory=dict)

  def compute(self, seconds: float) -> None:
    """Spends time on arithmetic."""
    self.now += seconds

  def begin(self, exchange: Hashable, seconds: float) -> None:
    """Starts an exchange that takes `seconds` once the links are free."""
    self._links_free_at = max(self.now, self._links_free_at) + seconds
    self._ends[exchange] = self._links_free_at

  def wait(self, exchange: Hashable) -> None:
    """Waits for the end of an exchange; one that never started has ended."""
    self.now = max(self.now, self._ends.pop(exchange, 0.0))
