"""Step times of the hosts of a run, and the slowest of them.

Steps end together on all hosts, for they exchange gradients; a slow one is
known by how long it waits for its data while the others wait for it.
"""

import json
import logging
import socket
import statistics

import jax

from vit_jax.processes import agreement

_SLOW = 2.0  # Times the median.
_MIN_SHARE = 0.1  # Of the step, below which nobody minds.

_logger = logging.getLogger(__name__)


class SlowHosts:
  """Compares the hosts at every line of the records.

  Attributes:
    slowest: Name of the host that waited longest for data at the last line;
      None in a run of one process.
  """

  def __init__(self) -> None:
    self.slowest: str | None = None
    self._told: str | None = None

  def compare(
    self, step_seconds: float | int, data_seconds: float | int
  ) -> dict[str, float | int]:
    """Metrics of all hosts; every process calls it, the first one gets them.

    Args:
      step_seconds: Seconds of this host for a step, data included.
      data_seconds: Seconds of these spent waiting for data.
    """
    if jax.process_count() == 1:
      return {}
    texts = agreement.collect(
      json.dumps([socket.gethostname(), step_seconds, data_seconds])
    )
    if texts is None:
      return {}
    names, steps, data = zip(*map(json.loads, texts), strict=True)
    process = max(range(len(data)), key=data.__getitem__)
    self.slowest = f"{names[process]} (process {process})"
    self._tell(max(data), statistics.median(data), max(steps))
    return {
      "perf/host_step_seconds_max": max(steps),
      "perf/host_step_seconds_median": statistics.median(steps),
      "perf/host_data_seconds_max": max(data),
      "perf/host_data_seconds_median": statistics.median(data),
      "perf/slowest_process": process,
    }

  def _tell(self, longest: float, median: float, step: float) -> None:
    """Warns of a straggler, once for as long as it stays the same."""
    if longest < _SLOW * median or longest < _MIN_SHARE * step:
      self._told = None
    elif self._told != self.slowest:
      self._told = self.slowest
      _logger.warning(
        "%s holds the others up: it waits %.3f s a step for its data, the"
        " median is %.3f s.",
        self.slowest,
        longest,
        median,
      )
