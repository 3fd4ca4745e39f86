"""Descriptions of the machine on which a process runs."""

import os
import platform
from typing import Any

_PROCESSORS, _MEMORY = "/proc/cpuinfo", "/proc/meminfo"


def describe() -> dict[str, Any]:
  """Returns 'processor', 'cores' and 'memory_bytes', as far as known.

  Cores are those that the process may use.
  """
  cores = os.cpu_count()
  if hasattr(os, "sched_getaffinity"):
    cores = len(os.sched_getaffinity(0))
  found = {
    "processor": _field(_PROCESSORS, "model name") or platform.processor(),
    "cores": cores,
    "memory_bytes": _memory("MemTotal"),
  }
  return {name: value for name, value in found.items() if value}


def free_memory() -> int | None:
  """Returns the bytes still available to programs; None if unknown."""
  return _memory("MemAvailable")


def _memory(name: str) -> int | None:
  kibibytes = _field(_MEMORY, name)
  return int(kibibytes.split()[0]) * 1024 if kibibytes else None


def _field(path: str, name: str) -> str:
  """Returns a name's first value in a file of 'name : value' lines, or ""."""
  try:
    with open(path, encoding="utf-8", errors="replace") as file:
      for line in file:
        key, _, value = line.partition(":")
        if key.strip() == name:
          return value.strip()
  except OSError:
    pass  # Not Linux.
  return ""
