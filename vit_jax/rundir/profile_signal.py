"""Handling of the trace signal while no profiler listens for it."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def ignored() -> Iterator[None]:
  """Prevents SIGUSR1 from ending the process; restores the old handler.

  A `profiling.Profiler` within the context still receives it. Signals belong to
  the main thread, so in another thread nothing changes.
  """
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
  try:
    yield
  finally:
    # None if it was not set by Python.
    signal.signal(signal.SIGUSR1, before or signal.SIG_DFL)
