"""Measurements of runs in the cells of a table."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Measurement:
  """One place of a table, in the table's unit.

  Attributes:
    values: Values, one for each seed.
    runs: Workdirs of the values, in the same order.
  """

  values: tuple[float, ...]
  runs: tuple[str, ...]

  @property
  def mean(self) -> float:
    return statistics.fmean(self.values)

  @property
  def std(self) -> float | None:
    """Standard deviation over the seeds, of a sample; None: one seed."""
    return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclasses.dataclass(frozen=True)
class Measured:
  """A table's measurements.

  Attributes:
    cells: (number of the row, column) -> what was measured.
    remarks: Sentences on runs that were found and could not be used.
  """

  cells: Mapping[tuple[int, str], Measurement]
  remarks: Sequence[str] = ()
