"""Suppresses compiler output about an absent device."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stderr() -> Iterator[None]:
  """Suppresses standard error, including that of libraries."""
  sys.stderr.flush()
  kept = os.dup(2)
  with tempfile.TemporaryFile() as sink:
    os.dup2(sink.fileno(), 2)
    try:
      yield
    finally:
      os.dup2(kept, 2)
      os.close(kept)
