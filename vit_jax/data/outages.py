"""Reads that outlast a disk or a network that is out of order for a while.

A file server that restarts answers with an error for seconds or minutes, where
it does not let its clients wait. Such an error says nothing about the file, so
that it must neither end a run nor count as a damaged example.
"""

import errno
import logging
import os
import time
from collections.abc import Callable
from typing import TypeVar

from vit_jax import buckets
from vit_jax.errors import UserError

SECONDS = 300.0  # That a storage is waited for.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # Seconds; each is twice the last.

# Errors of a device, a server or the way there, instead of those of one file.
_PASSING = frozenset(
  getattr(errno, name)
  for name in (
    *("EIO", "EREMOTEIO", "ESTALE", "ETIMEDOUT", "EAGAIN", "ENOBUFS"),
    *("ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH"),
    *("ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "ENOTCONN", "ESHUTDOWN"),
  )
  if hasattr(errno, name)  # Not all systems have all.
)

Result = TypeVar("Result")
_logger = logging.getLogger(__name__)


class StorageError(UserError):
  """A storage has been out of order for too long; its files may be whole."""


def outlast(path: str, read: Callable[[], Result]) -> Result:
  """Calls `read` until it meets no error that may pass, and returns its result.

  Args:
    path: The file or object that is read, for messages.
    read: Reads it anew at each call.

  Raises:
    StorageError: Such errors have come for SECONDS.
    OSError: Any other, as that of a file that is missing.
  """
  start, pause = time.monotonic(), _FIRST_PAUSE
  while True:
    try:
      with buckets.as_os_error(path):
        return read()
    except OSError as error:
      if error.errno not in _PASSING:
        raise
      reason = error.strerror
      if time.monotonic() + pause > start + SECONDS:
        raise StorageError(
          f"{path} could not be read for {SECONDS:.0f} seconds ({reason})."
          " Check its disk or file server and the network, or replace the file"
          " if it is the only one, and start again."
        ) from None
    if pause == _FIRST_PAUSE:
      _logger.warning("%s cannot be read (%s); trying again.", path, reason)
    time.sleep(pause)
    pause = min(2 * pause, _LONGEST_PAUSE)


def named_in(text: str) -> OSError | None:
  """The passing error that a library's message tells of; None: it is none."""
  for code in sorted(_PASSING):
    if os.strerror(code) in text:
      return OSError(code, os.strerror(code))
  return None
