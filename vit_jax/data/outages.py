"""Reads that survive temporary failures of a disk or network.

A restarting file server may return errors for seconds or minutes instead of
making its clients wait. Such an error says nothing about the file, so it must
neither end a run nor count as a damaged example.
"""

import errno
import logging
import os
import time
from collections.abc import Callable
from typing import TypeVar

from vit_jax import buckets
from vit_jax.errors import UserError

SECONDS = 300.0  # Time to wait for a storage.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # Seconds; doubled each time.

# Errors of a device, a server or the connection, not of a single file.
_PASSING = frozenset(
  getattr(errno, name)
  for name in (
    *("EIO", "EREMOTEIO", "ESTALE", "ETIMEDOUT", "EAGAIN", "ENOBUFS"),
    *("ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH"),
    *("ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "ENOTCONN", "ESHUTDOWN"),
  )
  if hasattr(errno, name)  # Not every system has all of them.
)

Result = TypeVar("Result")
_logger = logging.getLogger(__name__)


class StorageError(UserError):
  """A storage has failed for too long; its files may be intact."""


def outlast(path: str, read: Callable[[], Result]) -> Result:
  """Calls `read` until it has no temporary error, and returns its result.

  Args:
    path: File or object that is read, for messages.
    read: Function that reads it, anew on each call.

  Raises:
    StorageError: Temporary errors have lasted for SECONDS.
    OSError: Any other error, such as for a missing file.
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
  """The temporary error named in a library's message; None if there is none."""
  for code in sorted(_PASSING):
    if os.strerror(code) in text:
      return OSError(code, os.strerror(code))
  return None
