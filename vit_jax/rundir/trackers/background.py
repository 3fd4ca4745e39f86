"""Background thread for a tracker."""

import contextlib
import logging
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from vit_jax.rundir.trackers.contract import (
  Line,
  RunInfo,
  Tracker,
  TrackerKind,
)
from vit_jax.rundir.trackers.memory import Memory

# Lines that may wait while a tracker is slow; later ones are dropped.
_MAX_WAITING = 10_000
_LINES_AT_ONCE = 50
_SECONDS_BETWEEN_STARTS = 300.0
_SECONDS_TO_ABANDON = 1.0
_TRIES_OF_THE_INTERPRETER = 5
_logger = logging.getLogger(__name__)


class Background:
  """A tracker that neither stops nor slows the run.

  The first error is logged as a warning. Starting a tracker is retried from
  time to time if it fails. Lines that it rejects are written again with the
  next ones and, if it accepts only those, once more separately. Lines that it
  never accepts remain in metrics.jsonl.

  Args:
    name: Name of the tracker.
    kind: Its entry in the registry; called in the thread.
    info: Description of the run.
    memory: Memory of the tracker.
    earlier: Lines of earlier starts; those missing from the tracker are
      written.
    max_waiting: Maximum number of lines waiting for the tracker.
    seconds_between_starts: Seconds until a failed start is retried.
  """

  def __init__(
    self,
    name: str,
    kind: TrackerKind,
    info: RunInfo,
    memory: Memory,
    earlier: Sequence[Line],
    *,
    max_waiting: int = _MAX_WAITING,
    seconds_between_starts: float | int = _SECONDS_BETWEEN_STARTS,
  ):
    self._name = name
    self._kind = kind
    self._info = info
    self._memory = memory
    self._earlier = earlier
    self._max_waiting = max_waiting
    self._seconds_between_starts = seconds_between_starts
    self._refused: list[Line] = []
    self._waiting: queue.SimpleQueue[Line | str] = queue.SimpleQueue()
    self._closing = threading.Event()
    self._told = False
    self._thread = threading.Thread(target=self._work, name=name, daemon=True)
    self._thread.start()

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    if self._waiting.qsize() < self._max_waiting:
      self._waiting.put((step, metrics))
    else:
      self._tell("it is too slow")

  def finish(self, status: str) -> None:
    """Asks the tracker to end and returns immediately."""
    self._waiting.put(status)
    self._closing.set()

  def wait(self, until: float) -> None:
    """Waits for the end, at most until a `time.monotonic` time."""
    self._thread.join(max(until - time.monotonic(), 0.0))
    if self._thread.is_alive():
      self._tell("it does not answer")
      thread = threading.Thread(target=self._abandon, daemon=True)
      thread.start()
      thread.join(_SECONDS_TO_ABANDON)

  def _work(self) -> None:
    tracker = self._started()
    if tracker is None:
      return
    # The last step may have some of its lines and not others.
    first = tracker.last_step + bool(self._memory.get("whole"))
    self._memory.set(whole=False)
    missing = [line for line in self._earlier if line[0] >= first]
    self._earlier = ()
    for at in range(0, len(missing), _LINES_AT_ONCE):
      self._write(tracker, missing[at : at + _LINES_AT_ONCE])
    status = None
    while status is None:
      lines, status = self._next()
      if lines:
        self._write(tracker, lines)
    if self._refused:
      self._write(tracker, [])
    try:
      tracker.finish(status)
      self._memory.set(whole=True)
    except (Exception, SystemExit) as error:
      self._tell(_reason(error))
      self._abandon()

  def _abandon(self) -> None:
    with contextlib.suppress(Exception, SystemExit):
      self._kind.abandon()

  def _started(self) -> Tracker | None:
    """Returns the tracker; None if it could not be started in time."""
    while True:
      try:
        return self._try_to_start()
      except (Exception, SystemExit) as error:
        self._tell(f"it cannot be started: {_reason(error)}")
      if self._closing.wait(self._seconds_between_starts):
        self._abandon()
        return None

  def _try_to_start(self) -> Tracker:
    # Two libraries imported at once may both use `ast.parse`, which fails with
    # a SystemError in CPython 3.11 if threads interleave in it.
    for _ in range(_TRIES_OF_THE_INTERPRETER - 1):
      with contextlib.suppress(SystemError):
        return self._start()
    return self._start()

  def _start(self) -> Tracker:
    try:
      return self._kind.start(self._info, self._memory)
    except BaseException:
      _forget_half_imported(self._kind.package)
      raise

  def _next(self) -> tuple[list[Line], str | None]:
    """Returns some waiting lines at a time, and the status at the end."""
    lines: list[Line] = []
    item = self._waiting.get()
    while not isinstance(item, str):
      lines.append(item)
      if len(lines) == _LINES_AT_ONCE or self._waiting.empty():
        return lines, None
      item = self._waiting.get()
    return lines, item

  def _write(self, tracker: Tracker, lines: Sequence[Line]) -> None:
    """Writes the previously rejected lines and these."""
    all_lines = [*self._refused, *lines]
    if self._takes(tracker, all_lines):
      self._refused = []
    elif self._refused and lines and self._takes(tracker, lines):
      # They were rejected for their contents, or an outage has just ended.
      self._takes(tracker, self._refused)
      self._refused = []
    else:
      self._refused = all_lines[-self._max_waiting :]

  def _takes(self, tracker: Tracker, lines: Sequence[Line]) -> bool:
    try:
      tracker.write(lines)
    except (Exception, SystemExit) as error:
      self._tell(_reason(error))
      return False
    return True

  def _tell(self, reason: str) -> None:
    """Warns once."""
    if not self._told:
      self._told = True
      _logger.warning(
        "%s (config.log.to) is incomplete: %s. Training does not depend on it,"
        " and metrics.jsonl has every line.",
        self._name,
        reason,
      )


def _forget_half_imported(package: str) -> None:
  """Lets the next import of a package start from scratch.

  Python forgets a package whose import failed, but not its submodules, and
  these are not set as attributes of the package when it is imported again.
  """
  if package in sys.modules:
    return
  for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
    del sys.modules[name]


def _reason(error: BaseException) -> str:
  words = " ".join(str(error).split())[:300].rstrip(".")
  return words or type(error).__name__
