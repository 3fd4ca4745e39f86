"""The private interfaces of Orbax that this package uses, read at 0.12.8.

Nothing else in the package imports `orbax.checkpoint._src`. Each use names the
public interface that would replace it; `tests/checkpoint/test_orbax_private.py`
fails with a sentence when one of them moves.
"""

import functools
import threading

import jax
from absl import logging
from etils import epath
from orbax.checkpoint import type_handlers
from orbax.checkpoint._src.futures import future
from orbax.checkpoint._src.metadata import array_metadata_store, checkpoint

_MIN_SLICE_BYTES = 2**20


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


@functools.cache
def write_small_arrays_whole() -> None:
  """Leaves small replicated arrays to their first replica, once and for all.

  Orbax has every replica write a slice, which it cuts with a program for each
  array and device, while training waits (`benchmarks/saving.py`). Slices of a
  mebibyte and more are still cut.

  Public would be a store of array metadata that is not private, or a key of
  `CheckpointManagerOptions`.
  """
  handler = type_handlers.ArrayHandler(
    min_slice_bytes_for_replica_parallel=_MIN_SLICE_BYTES,
    array_metadata_store=array_metadata_store.Store(),
  )
  # That it overrides the default handler is no news to users.
  verbosity = logging.get_verbosity()
  logging.set_verbosity(logging.ERROR)
  try:
    type_handlers.register_type_handler(jax.Array, handler, override=True)
  finally:
    logging.set_verbosity(verbosity)
