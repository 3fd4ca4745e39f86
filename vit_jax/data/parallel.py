"""Runs functions in threads or processes, with results in order of the tasks.

`Executor.map` would consume all tasks at once, including the lists of files of
every shard; its `buffersize` requires Python 3.14.
"""

import collections
import concurrent.futures
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from vit_jax.errors import UserError

# Tasks submitted ahead for each worker.
_AHEAD = 2

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_threads(
  function: Callable[[Task], Result],
  tasks: Iterable[Task],
  *,
  num_threads: int,
) -> Iterator[Result]:
  """Like `map`, with several concurrent calls and few results kept waiting.

  Tasks are iterated over as needed.
  """
  with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
    yield from _in_order(pool, function, tasks, _AHEAD * num_threads)


def in_processes(
  function: Callable[[Task], Result],
  tasks: Iterable[Task],
  *,
  num_processes: int,
  what: str,
) -> Iterator[Result]:
  """Like `in_threads`, in processes that end with this one.

  With one process, the work is done in this one. The function, tasks and
  results must be picklable; `what` describes the tasks in the error message.

  Raises:
    UserError: A process died.
  """
  if num_processes == 1:
    yield from map(function, tasks)
    return
  pool = concurrent.futures.ProcessPoolExecutor(
    num_processes,
    # A fork would copy locks held by threads of libraries.
    multiprocessing.get_context("spawn"),
    initializer=_start_process,
  )
  try:
    with pool:
      yield from _in_order(pool, function, tasks, _AHEAD * num_processes)
  except BrokenProcessPool:
    raise UserError(
      f"A process that worked on {what} was lost; was there too little memory?"
      " Run the same command again, perhaps with fewer --workers: it continues"
      " with what is missing."
    ) from None


def _in_order(
  pool: concurrent.futures.Executor,
  function: Callable[[Task], Result],
  tasks: Iterable[Task],
  num_ahead: int,
) -> Iterator[Result]:
  pending: collections.deque[concurrent.futures.Future] = collections.deque()
  try:
    for task in tasks:
      pending.append(pool.submit(function, task))
      if len(pending) > num_ahead:
        yield pending.popleft().result()
    while pending:
      yield pending.popleft().result()
  finally:
    pool.shutdown(cancel_futures=True)


def _start_process() -> None:
  # Ctrl-C reaches every process of a terminal; a traceback from each would bury
  # the first one's message.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
  """Exits when the parent is gone, instead of waiting forever."""
  multiprocessing.parent_process().join()
  os._exit(1)
