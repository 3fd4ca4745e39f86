"""Means of the training metrics over the steps since the last logged one."""

from collections.abc import Collection, Mapping


class IntervalMeans:
  """Running sums of the metrics of every step.

  Sums are plain floats that are added in the order of the steps, and JSON
  preserves them exactly, so a run that stops within an interval and resumes
  logs the same means as one that never stopped.

  Args:
    sums: Sums saved in a checkpoint, with their number under 'steps'.
    latest: Names of metrics that are not averaged; the last value is used.
  """

  def __init__(self, sums: Mapping[str, float], *, latest: Collection[str]):
    self._sums = dict(sums)
    self._steps = int(self._sums.pop("steps", 0))
    self._latest = frozenset(latest)
    self._last: dict[str, float] = {}

  def add(self, values: Mapping[str, float], *, finite: bool) -> None:
    """Adds the metrics of a step.

    Args:
      values: Metrics of the step.
      finite: False if its loss or gradient was not finite. Such a step is
        excluded from the means, as its update is from the weights.
    """
    self._last = dict(values)
    if not finite:
      return
    self._steps += 1
    for name, value in values.items():
      self._sums[name] = self._sums.get(name, 0.0) + value

  def take(self) -> dict[str, float]:
    """Returns and resets the means; without finite steps, the last values."""
    means = dict(self._last)
    if self._steps:
      means |= {
        name: self._sums[name] / self._steps
        for name in means
        if name in self._sums and name not in self._latest
      }
    self._sums, self._steps = {}, 0
    return means

  def sums(self) -> dict[str, float]:
    """Returns the sums to save in a checkpoint for the next `IntervalMeans`."""
    return self._sums | {"steps": self._steps} if self._steps else {}
