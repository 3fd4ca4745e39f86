"""Keeps back what compilers write about a device that is not here."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stderr() -> Iterator[None]:
  """Keeps what is written to standard error, by libraries too, from it."""
  sys.stderr.flush()
  kept = os.dup(2)
  with tempfile.TemporaryFile() as sink:
    os.dup2(sink.fileno(), 2)
    try:
      yield
    finally:
      os.dup2(kept, 2)
      os.close(kept)
