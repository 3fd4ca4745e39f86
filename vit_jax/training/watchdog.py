"""Ends a run that makes no progress, printing every thread's stack."""

import contextlib
import faulthandler
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax
from etils import epath

from vit_jax import buckets, heartbeat
from vit_jax.processes import jax_private
from vit_jax.rundir.timing import Clock

EXIT_HUNG = 137
_CHECKS = 20  # Number of checks within the time limit.
# Compilation may take any length of time.
_COMPILER = jax_private.COMPILER_FILE

_logger = logging.getLogger(__name__)


def end_process() -> None:
  """Exits immediately, because a hanging thread would block a regular exit."""
  sys.stderr.flush()
  os._exit(EXIT_HUNG)


class Watchdog:
  """A thread that watches the thread that started it for signs of life.

  It runs from `start` until the context is left.

  Signs of life are batches delivered for training or evaluation, a changed
  stack, a running compiler, and files that grow during a save.

  Args:
    limit_seconds: Maximum time without progress, in seconds; 0 for no limit.
    clock: Clock that reports the current phase.
    end: Called at the end, after all stacks have been printed.
    now: Clock, in seconds from an arbitrary origin.
  """

  def __init__(
    self,
    limit_seconds: float | int,
    clock: Clock,
    end: Callable[[], None] = end_process,
    now: Callable[[], float] = time.monotonic,
  ):
    self._limit = limit_seconds
    self._clock = clock
    self._end = end
    self._now = now
    self._closed = threading.Event()
    self._thread: threading.Thread | None = None

  def start(self, saves: epath.Path) -> None:
    """Starts watching.

    Args:
      saves: Directory of the checkpoints.
    """
    self._saves = saves
    self._watched = threading.get_ident()
    if self._limit:
      self._thread = threading.Thread(
        target=self._watch, name="watchdog", daemon=True
      )
      self._thread.start()

  def __enter__(self) -> "Watchdog":
    return self

  def __exit__(self, *unused: object) -> None:
    self._closed.set()
    if self._thread:
      self._thread.join()

  def _watch(self) -> None:
    seen, since = None, self._now()
    looked = since
    while not self._closed.wait(self._limit / _CHECKS):
      signs, now = self._signs(), self._now()
      # A suspended process had no time to show any.
      was_suspended = now - looked > self._limit / 2
      looked = now
      if signs != seen or was_suspended or _compiles(self._frame()):
        seen, since = signs, now
      elif now - since >= self._limit:
        self._report(now - since)
        self._end()
        return

  def _frame(self) -> FrameType | None:
    return sys._current_frames().get(self._watched)

  def _signs(self) -> tuple[Any, ...]:
    """Returns a value that changes between calls while the run progresses."""
    saved = _sizes(self._saves) if self._clock.current == "save" else None
    return heartbeat.count(), _stack(self._frame()), saved

  def _report(self, seconds: float) -> None:
    doing = {
      "data": "waiting for data: a disk or a network may be stuck",
      "step": "waiting for the devices: one of them, or the network between"
      " them, may be stuck",
      "evaluate": "evaluating",
      "save": "saving a checkpoint: a disk or a network may be stuck",
    }.get(self._clock.current, "training")
    _logger.error(
      "Process %d on %s has stood still for %.0f s, more than"
      " config.faults.watchdog_seconds, while %s. All its threads:",
      jax.process_index(),
      socket.gethostname(),
      seconds,
      doing,
    )
    faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
    _logger.error(
      "Ending with exit code %d; the same command resumes from the last"
      " checkpoint.",
      EXIT_HUNG,
    )


def _stack(frame: FrameType | None) -> list[tuple[int, int]]:
  """Returns the current instruction of each frame of a stack."""
  found = []
  while frame is not None:
    found.append((id(frame), frame.f_lasti))
    frame = frame.f_back
  return found


def _compiles(frame: FrameType | None) -> bool:
  while frame is not None:
    if frame.f_code.co_filename.endswith(_COMPILER):
      return True
    frame = frame.f_back
  return False


def _sizes(directory: epath.Path) -> list[tuple[str, int]]:
  """Returns the visible files below a directory and their sizes."""
  found = []
  # Files may be renamed during the walk.
  with contextlib.suppress(OSError), buckets.as_os_error(directory):
    for path in directory.iterdir():
      if path.is_dir():
        found += [(f"{path.name}/{n}", s) for n, s in _sizes(path)]
      else:
        found.append((path.name, buckets.status(path).size))
  return sorted(found)
