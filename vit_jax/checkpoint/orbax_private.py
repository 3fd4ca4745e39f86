"""The private Orbax interfaces that this package uses, as of 0.12.8.

Nothing else in the package imports `orbax.checkpoint._src`. Each use names the
public interface that would replace it; `tests/checkpoint/test_orbax_private.py`
fails with an explanation when one of them moves.
"""

import asyncio
import functools
import threading
from collections.abc import Coroutine
from typing import Any

import jax
from absl import logging
from etils import epath
from orbax.checkpoint import type_handlers
from orbax.checkpoint._src import asyncio_utils
from orbax.checkpoint._src.futures import future
from orbax.checkpoint._src.metadata import array_metadata_store, checkpoint

_MIN_SLICE_BYTES = 2**20
# Time to wait for the other writes of a save after one of them failed.
_WRITES_SECONDS = 10


def step_metadata_file(path: epath.Path) -> epath.Path:
  """Returns the file of a step that holds Orbax's own metadata.

  A public replacement would be a hook between the last write of a step and its
  commit, so that a manifest could include this file.
  """
  return checkpoint.step_metadata_file_path(path)


def is_writer(thread: threading.Thread) -> bool:
  """Returns True if a thread writes part of a save.

  A public replacement would be a wait for all threads of a failed save.
  """
  return isinstance(thread, future._SignalingThread)


@functools.cache
def write_small_arrays_whole() -> None:
  """Makes first replicas write small arrays whole; repeated calls do nothing.

  Orbax has every replica write a slice, which is cut by a program for each
  array and device while training waits (`benchmarks/saving.py`). Slices of a
  mebibyte or more are still cut.

  A public replacement would be a public array metadata store, or an option of
  `CheckpointManagerOptions`.
  """
  handler = type_handlers.ArrayHandler(
    min_slice_bytes_for_replica_parallel=_MIN_SLICE_BYTES,
    array_metadata_store=array_metadata_store.Store(),
  )
  # Users need not know that it overrides the default handler.
  verbosity = logging.get_verbosity()
  logging.set_verbosity(logging.ERROR)
  try:
    type_handlers.register_type_handler(jax.Array, handler, override=True)
  finally:
    logging.set_verbosity(verbosity)


@functools.cache
def end_writes_of_failed_saves() -> None:
  """Makes a failed save wait for its writes; repeated calls do nothing.

  Orbax closes the event loop at the first error. Each write that ends later
  finds it closed and prints a stack trace: dozens if a disk is full.

  A public replacement would be a save that ends only after all its tasks.
  """
  run = asyncio_utils._run_sync_via_new_loop
  asyncio_utils._run_sync_via_new_loop = lambda coroutine: run(
    _until_all_have_ended(coroutine)
  )


async def _until_all_have_ended(coroutine: Coroutine[Any, Any, Any]) -> Any:
  try:
    return await coroutine
  except BaseException:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
      ended, _ = await asyncio.wait(others, timeout=_WRITES_SECONDS)
      # An error that was never retrieved would be printed too.
      await asyncio.gather(*ended, return_exceptions=True)
    raise
