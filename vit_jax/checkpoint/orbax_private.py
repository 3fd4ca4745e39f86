"""The private interfaces of Orbax that this package uses, read at 0.12.8.

Nothing else in the package imports `orbax.checkpoint._src`. Each use names the
public interface that would replace it; `tests/checkpoint/test_orbax_private.py`
fails with a sentence when one of them moves.
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
# How long the other writes of a save are waited for when one of them failed.
_WRITES_SECONDS = 10


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


@functools.cache
def end_writes_of_failed_saves() -> None:
  """Waits for all writes of a save when one has failed, once and for all.

  Orbax closes the event loop at the first error. Each write that ends later
  finds it closed, and prints a stack trace: dozens where a disk is full.

  Public would be a save that ends when all of its tasks have.
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
      # An error that nobody has looked at is printed too.
      await asyncio.gather(*ended, return_exceptions=True)
    raise
