"""SIGTERM ends a command with a sentence and exit code 143.

A run that trains asks for SIGTERM as a request to save when it joins its
processes, which replaces this; see `stopping`.
"""

import contextlib
import functools
import os
import select
import signal
import threading
import time
from types import FrameType

from vit_jax import records

EXIT_TERMINATED = 128 + signal.SIGTERM
WORDS = "stopped by SIGTERM"


def catch() -> None:
  """Makes SIGTERM end the process; call it in the main thread.

  A thread does it, at once: the main one may be in a compiler for minutes, and
  an exception in the middle of an import has been seen to crash jax. libtpu,
  whose handler prints a stack trace, installs it only where there is none.
  """
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  signal.signal(signal.SIGTERM, _left_to_thread)
  os.register_at_fork(
    before=functools.partial(_mask, signal.SIG_BLOCK),
    after_in_parent=functools.partial(_mask, signal.SIG_UNBLOCK),
    after_in_child=_forget,
  )
  stderr = os.dup(2)  # The compiler's output may be suppressed just then.
  threading.Thread(target=_watch, args=(reader, stderr), daemon=True).start()


def _forget() -> None:
  """Lets SIGTERM end a forked child, which has no thread, not its parent."""
  signal.set_wakeup_fd(-1)
  if signal.getsignal(signal.SIGTERM) is _left_to_thread:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
  _mask(signal.SIG_UNBLOCK)


def _mask(how: int) -> None:
  """Delays SIGTERM until a forked child has its own answer to it."""
  signal.pthread_sigmask(how, {signal.SIGTERM})


def _left_to_thread(number: int, frame: FrameType | None) -> None:
  del number, frame
  # Keeps the main thread from writing while the other removes files; not
  # forever, as it may hold a lock that the other needs.
  time.sleep(10)


def _watch(reader: int, stderr: int) -> None:
  while True:
    is_sigterm = signal.SIGTERM in os.read(reader, 1)
    # A command that passes it on to its runs has a handler of its own.
    if is_sigterm and signal.getsignal(signal.SIGTERM) is _left_to_thread:
      with contextlib.suppress(OSError):
        # Not by print, whose buffer the main thread may be using, nor into a
        # pipe that is full: whoever reads it may have stopped.
        if select.select((), (stderr,), (), 0)[1]:
          os.write(stderr, f"{WORDS}\n".encode())
      records.discard_unfinished()
      os._exit(EXIT_TERMINATED)
