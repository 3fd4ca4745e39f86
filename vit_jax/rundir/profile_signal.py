"""The signal that asks a run for a trace, while there is nobody to hear it."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def ignored() -> Iterator[None]:
  """Keeps SIGUSR1 from ending the process; what was set before comes back.

  A `profiling.Profiler` within the context still hears it. Signals belong to
  the main thread, so in another one nothing changes.
  """
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
  try:
    yield
  finally:
    # None: it was not Python that set it.
    signal.signal(signal.SIGUSR1, before or signal.SIG_DFL)
