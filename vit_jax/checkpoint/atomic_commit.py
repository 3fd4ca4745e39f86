"""Committing Orbax's temporary directory as a step with a manifest.

Orbax writes into `STEP.orbax-checkpoint-tmp` and renames that to `STEP`. Here
it is first renamed to a name that still counts as temporary, then the manifest
is added, and a final rename makes it a step. In a bucket, an object written
last makes it a step. A kill at any moment therefore leaves either no step or
one with its manifest.
"""

import time

from etils import epath
from orbax.checkpoint.path import atomicity, atomicity_types

from vit_jax import buckets
from vit_jax.checkpoint import manifest, orbax_private

TEMPORARY = atomicity_types.TMP_DIR_SUFFIX
COMMITTED = atomicity_types.COMMIT_SUCCESS_FILE


class SealedByRename(atomicity.AtomicRenameTemporaryPath):
  """Commit on file systems, where renaming is atomic."""

  async def finalize(self) -> None:
    if not _is_step(self._final_path):
      await super().finalize()
      return
    final = self._final_path
    self._final_path = final.with_name(f"{final.name}{TEMPORARY}-sealed")
    await super().finalize()
    manifest.write(self._final_path)
    self._final_path.rename(final)
    self._final_path = final


class SealedBeforeCommit(atomicity.CommitFileTemporaryPath):
  """Commit in buckets, which cannot rename.

  Orbax writes under the step's own name, and an object written last makes it a
  step. The manifest is written just before it.
  """

  async def finalize(self) -> None:
    if _is_step(self._final_path):
      await self._finish_metadata()
      manifest.write(self._final_path)
    await super().finalize()

  async def _finish_metadata(self) -> None:
    """Finishes Orbax's metadata early, so that the manifest includes it."""
    store = self._checkpoint_metadata_store
    if store is None:
      return
    path = orbax_private.step_metadata_file(self._tmp_path)
    store.wait_until_finished()
    store.update(file_path=path, commit_timestamp_nsecs=time.time_ns())
    store.wait_until_finished()
    self._checkpoint_metadata_store = None


def _is_step(path: epath.Path) -> bool:
  """Tells a step from its items, such as `state`, which Orbax treats alike."""
  return path.name.isdigit()


def path_class(path: epath.Path) -> type[atomicity_types.TemporaryPath]:
  """Picks the class of temporary directory for the checkpoints' location."""
  return SealedBeforeCommit if buckets.is_bucket(path) else SealedByRename


def is_whole(step: epath.Path) -> bool:
  """Returns True if a directory named by a number is a complete step."""
  return not buckets.is_bucket(step) or (step / COMMITTED).exists()
