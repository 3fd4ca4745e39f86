"""The trackers of a run: `config.log.to`."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax import registry
from vit_jax.rundir.trackers.background import Background
from vit_jax.rundir.trackers.contract import Line, RunInfo
from vit_jax.rundir.trackers.memory import FILE, Memory

# More than wandb takes by itself; clusters allow about as much before a kill.
_SECONDS_TO_FINISH = 30.0


class RunTrackers:
  """Sends the metrics of a run to trackers, each in a separate thread.

  Args:
    names: Names of trackers in `registry.TRACKERS`.
    info: Description of the run.
    earlier: Lines of metrics.jsonl from earlier starts of the run.
    seconds_to_finish: Maximum seconds that `finish` waits.
  """

  def __init__(
    self,
    names: Sequence[str],
    info: RunInfo,
    earlier: Sequence[Mapping[str, Any]],
    *,
    seconds_to_finish: float | int = _SECONDS_TO_FINISH,
  ):
    self._seconds_to_finish = seconds_to_finish
    self._trackers = []
    lines = [_line(record) for record in earlier]
    lock = threading.Lock()
    for name in dict.fromkeys(names):
      memory = Memory(info.directory / FILE, name, lock)
      kind = registry.TRACKERS.get(name)
      self._trackers.append(Background(name, kind, info, memory, lines))

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    """Queues a line of metrics.jsonl; returns immediately."""
    for tracker in self._trackers:
      tracker.write(step, dict(metrics))

  def finish(self, status: str) -> None:
    """Ends the trackers and waits for them for a while.

    Args:
      status: Status of the run, as for `Tracker.finish`.
    """
    for tracker in self._trackers:
      tracker.finish(status)
    until = time.monotonic() + self._seconds_to_finish
    for tracker in self._trackers:
      tracker.wait(until)


def _line(record: Mapping[str, Any]) -> Line:
  """Restores a line from JSON, where null means NaN or infinity."""
  return record["step"], {
    name: math.nan if value is None else value
    for name, value in record.items()
    if name != "step"
  }
