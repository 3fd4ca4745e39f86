"""How Orbax's temporary directory becomes a step: with a manifest in it.

Orbax writes into `STEP.orbax-checkpoint-tmp` and renames that to `STEP`. Here
it is renamed to a name that still counts as temporary; the manifest is added,
and the last rename makes it a step. So a kill at any moment leaves either no
step, or one with its manifest.
"""

from etils import epath
from orbax.checkpoint.path import atomicity, atomicity_types

from vit_jax.checkpoint import manifest

TEMPORARY = atomicity_types.TMP_DIR_SUFFIX


class SealedByRename(atomicity.AtomicRenameTemporaryPath):
  """For file systems, where renaming is atomic."""

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


class SealedAfterCommit(atomicity.CommitFileTemporaryPath):
  """For buckets, which cannot rename.

  A kill between the commit and the manifest leaves a step without one: it
  counts as damaged, and the one before it is used.
  """

  async def finalize(self) -> None:
    await super().finalize()
    if _is_step(self._final_path):
      manifest.write(self._final_path)


def _is_step(path: epath.Path) -> bool:
  """Orbax treats each item in a step, such as `state`, the same way."""
  return path.name.isdigit()


def path_class(path: epath.Path) -> type[atomicity_types.TemporaryPath]:
  """What suits the place that checkpoints are written to."""
  if str(path).startswith("gs://"):
    return SealedAfterCommit
  return SealedByRename
