"""Files with positions of records in others, which are then scanned only once.

An index is stored next to the data, or in $XDG_CACHE_HOME/vit_jax
(~/.cache/vit_jax) if that is not writable.
"""

import hashlib
import io
import logging
import os
from collections.abc import Callable, Sequence

import numpy as np
from etils import epath

from vit_jax import cache_directory, records

_logger = logging.getLogger(__name__)


def open_file(path: str) -> io.IOBase:
  """Opens a file in a file system or bucket to read parts of it."""
  if "://" in path:
    return epath.Path(path).open("rb")
  return open(path, "rb", buffering=0)


def places(
  paths: Sequence[str], states: Sequence[object], kind: str
) -> list[epath.Path]:
  """Lists the possible paths of an index, best first.

  Args:
    paths: Paths of the indexed files.
    states: State of each file that changes with its content, such as its size.
    kind: Part of the name of the index.
  """
  first = epath.Path(paths[0])
  found = []
  # An index next to the data moves with them, so it stores no directories.
  for directory, names in (
    (first.parent, [os.path.basename(path) for path in paths]),
    (epath.Path(cache_directory.path()), paths),
  ):
    identity = repr((list(names), list(states))).encode()
    key = hashlib.sha256(identity).hexdigest()[:16]
    split = first.name.split("-0")[0]
    found.append(directory / f"{split}.{key}.{kind}.npy")
  return found


def load(
  candidates: Sequence[epath.Path], fits: Callable[[np.ndarray], bool]
) -> np.ndarray | None:
  """Loads the first index that is readable and fits; None if there is none.

  A warning names existing files that cannot be used.
  """
  for path in candidates:
    try:
      content = io.BytesIO(path.read_bytes())
      index = np.lib.format.read_array(content, allow_pickle=False)
      if fits(index):
        return index
      problem = "it does not suit the data"
    except FileNotFoundError:
      continue
    except (OSError, ValueError) as error:
      problem = str(error)
    _logger.warning("Ignoring the index %s (%s).", path, problem)
  return None


def store(candidates: Sequence[epath.Path], index: np.ndarray) -> None:
  """Writes an index to the first writable path."""
  content = io.BytesIO()
  np.save(content, index)
  for path in candidates:
    try:
      path.parent.mkdir(parents=True, exist_ok=True)
      # Other processes may index at the same time.
      with records.replacing(path) as partial:
        partial.write_bytes(content.getvalue())
      return
    except OSError as error:
      _logger.info("No index at %s (%s).", path, error)
