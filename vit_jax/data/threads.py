"""Work shared by threads, its results in the order of the tasks."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

# Tasks that are handed out ahead, for each thread.
_AHEAD = 2

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_order(
  function: Callable[[Task], Result],
  tasks: Iterable[Task],
  *,
  num_threads: int,
) -> Iterator[Result]:
  """Like `map`, with several calls under way at once.

  Few results wait to be taken, however many tasks there are.

  Args:
    function: any thread may call it.
    tasks: made as they are needed.
    num_threads: calls at once.
  """
  pending: collections.deque[concurrent.futures.Future] = collections.deque()
  with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
    try:
      for task in tasks:
        pending.append(pool.submit(function, task))
        if len(pending) > _AHEAD * num_threads:
          yield pending.popleft().result()
      while pending:
        yield pending.popleft().result()
    finally:  # Nobody waits for what is not begun.
      pool.shutdown(cancel_futures=True)
