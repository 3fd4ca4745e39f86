"""Waiting until all processes of a run see the same on their storage.

A file system over a network shows a host for a while what it was.
"""

import json
import logging
import platform
import time
from collections.abc import Callable

import jax

from vit_jax.processes import agreement

# NFS looks again after 60 s, by default.
SECONDS = 65
_PAUSE_SECONDS = 0.5
_logger = logging.getLogger(__name__)


def views(look: Callable[[], str], what: str) -> list[str]:
  """Views of all processes, by number; all processes must call it.

  They are alike, unless they were not in `SECONDS`.

  Args:
    look: Function that looks once.
    what: The name of what it looks at, for a line to whoever waits.
  """
  deadline, told = time.monotonic() + SECONDS, False
  while True:
    word = json.dumps([look(), time.monotonic() > deadline])
    seen, is_over = zip(*map(json.loads, agreement.gather(word)), strict=True)
    # Process 0 tells when it is over, so that all give up together.
    if len(set(seen)) == 1 or is_over[0]:
      return list(seen)
    if not told and jax.process_index() == 0:
      _logger.warning("Waiting until all hosts see the same in %s.", what)
    told = True
    time.sleep(_PAUSE_SECONDS)


def named(processes: list[int]) -> str:
  """'process 1 on host a, process 2 on host b'; all processes must call it."""
  hosts = agreement.gather(platform.node())
  return ", ".join(f"process {i} on host {hosts[i]}" for i in processes)
