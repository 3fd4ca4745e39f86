"""A file in which trackers store run ids between starts."""

import contextlib
import pathlib
import threading
from typing import Any

from vit_jax import records

FILE = "trackers.json"


class Memory:
  """The values that one tracker stores in the workdir.

  Args:
    path: File shared by trackers.
    name: Name of the tracker.
    lock: Lock of that file.
  """

  def __init__(self, path: pathlib.Path, name: str, lock: threading.Lock):
    self._path = path
    self._name = name
    self._lock = lock
    kept = records.read_json(path).get(name)
    self._values: dict[str, Any] = kept if isinstance(kept, dict) else {}

  def get(self, key: str, default: Any = None) -> Any:
    return self._values.get(key, default)

  def set(self, **values: Any) -> None:
    """Stores values of JSON types; None removes a value.

    If the file cannot be written, for example on a full disk, the next start
    may not find the run; this is not an error.
    """
    for key, value in values.items():
      self._values[key] = value
      if value is None:
        del self._values[key]
    with self._lock, contextlib.suppress(OSError):
      kept = records.read_json(self._path) | {self._name: self._values}
      records.write_json(self._path, kept)
