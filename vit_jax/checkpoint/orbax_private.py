"""The private interfaces of Orbax that this package uses, read at 0.12.8.

Nothing else in the package imports `orbax.checkpoint._src`. Each use names the
public interface that would replace it; `tests/checkpoint/test_orbax_private.py`
fails with a sentence when one of them moves.
"""

import threading

from etils import epath
from orbax.checkpoint._src.futures import future
from orbax.checkpoint._src.metadata import checkpoint


def step_metadata_file(path: epath.Path) -> epath.Path:
  """The file of a step in which Orbax keeps its own metadata.

  Public would be a hook between the last write of a step and its commit, so
  that a manifest could list this file too.
  """
  return checkpoint.step_metadata_file_path(path)


def is_writer(thread: threading.Thread) -> bool:
  """Tells whether a thread writes a part of a save.

  Public would be a wait for all threads of a save that failed.
  """
  return isinstance(thread, future._SignalingThread)
