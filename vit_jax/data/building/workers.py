"""Processes that share the work, and say how far they are."""

import concurrent.futures
import dataclasses
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from vit_jax.errors import UserError

_SECONDS_BETWEEN_LOOKS = 0.2
# Tasks handed out beyond those being worked on, so that nobody waits.
_TASKS_AHEAD = 2

Task = TypeVar("Task")
Result = TypeVar("Result")
Show = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class _Shared:
  """What all processes see."""

  done: Any
  stop: Any


_shared: _Shared | None = None


class Workers:
  """A context in which functions run in other processes.

  On the way out, tasks at work stop at their next `advance`.

  Args:
    count: how many processes; with 1 the work is done in this one.
    show: called now and then with what is being worked through, how many are
      done and how many there are.
  """

  def __init__(self, count: int, show: Show):
    # No fork: it would copy the locks of libraries' threads.
    context = multiprocessing.get_context("spawn")
    self._shared = _Shared(context.Value("q", 0), context.Event())
    self._count = count
    self._show = show
    self._pool: concurrent.futures.Executor
    if count == 1:
      self._pool = concurrent.futures.ThreadPoolExecutor(
        1, initializer=_start, initargs=(self._shared, False)
      )
    else:
      self._pool = concurrent.futures.ProcessPoolExecutor(
        count, context, initializer=_start, initargs=(self._shared, True)
      )

  def __enter__(self) -> "Workers":
    return self

  def __exit__(self, *_: Any) -> None:
    self._shared.stop.set()
    self._pool.shutdown(cancel_futures=True)

  def run(
    self,
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    what: str,
    total: int,
    done: int = 0,
  ) -> Iterator[Result]:
    """Yields results as they come, in any order.

    Args:
      function: calls `advance`.
      tasks: made as they are needed.
      what: the things that are counted, for `show`.
      total: how many there are.
      done: how many were done before.

    Raises:
      UserError: a process was lost.
    """
    with self._shared.done.get_lock():
      self._shared.done.value = done
    tasks = iter(tasks)
    pending: set[concurrent.futures.Future] = set()
    while True:
      room = self._count + _TASKS_AHEAD - len(pending)
      try:
        for task in itertools.islice(tasks, room):
          pending.add(self._pool.submit(function, task))
        if not pending:
          return
        finished, pending = concurrent.futures.wait(
          pending,
          _SECONDS_BETWEEN_LOOKS,
          return_when=concurrent.futures.FIRST_COMPLETED,
        )
        for future in finished:
          yield future.result()
      except BrokenProcessPool:
        raise UserError(
          f"A process that worked on {what} was lost; was there too little"
          " memory? Run the same command again, perhaps with fewer --workers:"
          " it goes on with what is missing."
        ) from None
      self._show(what, self._shared.done.value, total)


class Stopped(Exception):
  """The work is no longer wanted."""


def advance(count: int) -> None:
  """Says, inside a task, that so many more things are done.

  Raises:
    Stopped: nobody waits for the result.
  """
  assert _shared is not None, "called outside of `Workers.run`"
  if _shared.stop.is_set():
    raise Stopped
  with _shared.done.get_lock():
    _shared.done.value += count


def _start(shared: _Shared, is_process: bool) -> None:
  """Makes a worker ready."""
  global _shared
  _shared = shared
  if is_process:
    # Ctrl-C reaches all processes of a terminal; the first one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
  """A worker whose parent was killed would wait for work for ever."""
  multiprocessing.parent_process().join()
  os._exit(1)
