"""Check that all processes of a run share one workdir."""

import jax
from etils import epath

from vit_jax import buckets
from vit_jax.errors import UserError
from vit_jax.processes import same_view
from vit_jax.rundir import workdir_lock


def check(workdir: epath.Path) -> None:
  """Checks that all processes see the lock that process 0 holds.

  Raises:
    UserError: Some processes do not see it; raised on all processes.
  """
  if jax.process_count() == 1:
    return
  seen = same_view.views(lambda: _lock(workdir), str(workdir))
  others = [i for i, text in enumerate(seen) if text != seen[0]]
  if others:
    raise UserError(
      f"The workdir {workdir} of process 0 cannot be seen by"
      f" {same_view.named(others)}: {workdir / workdir_lock.NAME}, which the"
      " first wrote, is not there. Give --workdir a directory that all hosts"
      " share, or one in a bucket (gs://BUCKET/...)."
    )


def _lock(workdir: epath.Path) -> str:
  try:
    with buckets.as_os_error(workdir):
      return (workdir / workdir_lock.NAME).read_text()
  except (OSError, UnicodeDecodeError):
    return ""
