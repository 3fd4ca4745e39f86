"""Prefetching of the next items of an iterator in a thread.

flax's `prefetch_to_device` has no thread and cannot be closed; tf.data's
prefetching ends before the copy to the devices.
"""

import queue
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from vit_jax import heartbeat

_POLL_SECONDS = 0.1  # Interval at which a full queue checks for closing.


def _pump(
  items: Iterator[Any], ready: queue.Queue, stopped: threading.Event
) -> None:
  """Puts (item, None) into the queue, and (None, exception) at the end."""

  def put(entry: tuple[Any, BaseException | None]) -> None:
    while not stopped.is_set():
      try:
        return ready.put(entry, timeout=_POLL_SECONDS)
      except queue.Full:
        continue

  try:
    while not stopped.is_set():
      put((next(items), None))
  except BaseException as error:  # noqa: B902 - raised again by the reader.
    put((None, error))


def _stop(thread: threading.Thread, stopped: threading.Event) -> None:
  stopped.set()
  if thread is not threading.current_thread():
    thread.join()


class Prefetcher:
  """Iterates over `items`, `size` of which are produced ahead in a thread.

  An exception of `items`, including their end, is raised instead of the item.
  `close` stops the thread, as do the end of the interpreter and garbage
  collection of this object.
  """

  def __init__(self, items: Iterator[Any], size: int):
    self._ready: queue.Queue = queue.Queue(maxsize=size)
    self._error: BaseException | None = None
    stopped = threading.Event()
    thread = threading.Thread(
      target=_pump,
      args=(items, self._ready, stopped),
      name="prefetch",
      daemon=True,
    )
    self._finalizer = weakref.finalize(self, _stop, thread, stopped)
    thread.start()

  def __iter__(self) -> "Prefetcher":
    return self

  def __next__(self) -> Any:
    if self._error is None:
      if not self._finalizer.alive:
        raise ValueError("The batches have been closed.")
      item, self._error = self._ready.get()
      heartbeat.beat()
      if self._error is None:
        return item
    raise self._error

  def close(self) -> None:
    """Stops the thread and waits for it."""
    self._finalizer()
    while not self._ready.empty():
      self._ready.get_nowait()
