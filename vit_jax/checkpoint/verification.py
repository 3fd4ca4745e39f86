"""Comparing a run's steps with their manifests."""

import contextlib
import itertools
import json
import logging
from collections.abc import Iterator

import jax
from etils import epath

from vit_jax import buckets
from vit_jax.checkpoint import atomic_commit, manifest
from vit_jax.errors import UserError
from vit_jax.processes import agreement, liveness, same_view

_logger = logging.getLogger(__name__)


def steps_in(directory: epath.Path) -> list[int]:
  """Returns the complete steps in `checkpoints/`, damaged or not, in order."""
  if not directory.exists():
    return []
  named = (entry for entry in directory.iterdir() if entry.name.isdigit())
  return sorted(
    int(path.name) for path in named if atomic_commit.is_whole(path)
  )


@contextlib.contextmanager
def reached(directory: epath.Path) -> Iterator[None]:
  """Converts errors about an unreachable `checkpoints/` to a UserError.

  Raises:
    UserError: The context raised an error of a file system or a bucket. Errors
      of devices, or due to the loss of another process, are unchanged.
  """
  try:
    with buckets.as_os_error(directory):
      yield
  except OSError as error:
    cause = error.__cause__
    is_of_jax = isinstance(cause, jax.errors.JaxRuntimeError)
    if is_of_jax or liveness.is_of_network(cause):
      raise cause from None
    reason = str(error.strerror or error).rstrip(".")
    raise UserError(
      f"The checkpoints of {directory.parent} cannot be reached: {reason}."
    ) from None


def set_damaged_aside(directory: epath.Path) -> list[int]:
  """Moves away the latest steps while they are damaged, and logs it.

  All processes must call it before any of them reads.

  Returns:
    The steps that remain, in order.

  Raises:
    UserError: All checkpoints are damaged (they are not moved), or the
      processes do not see the same ones.
  """
  steps = _steps_of_all(directory)
  damaged = {}
  for step in reversed(steps):
    found = _damage(directory / str(step))
    if not found:
      break
    damaged[step] = found
  else:
    if damaged:
      lines = (_described(directory, *item) for item in damaged.items())
      raise UserError(
        "No checkpoint of this run can be trusted:\n"
        + "\n".join(f"  {line}" for line in lines)
        + f"\nTo start from the beginning, remove {directory} or use another"
        " --workdir."
      )
  for step, found in damaged.items():
    aside = _free_name(directory / f"damaged-{step}")
    if jax.process_index() == 0:
      _move(directory / str(step), aside)
      _logger.error(
        "%s. It is set aside as %s, and the checkpoint before it is used; its"
        " steps will be trained again.",
        _described(directory, step, found),
        aside,
      )
  # They have now been moved.
  return _steps_of_all(directory) if damaged else steps


def has_whole(directory: epath.Path, last: int) -> bool:
  """Returns True if a step up to `last` is intact; all processes call it.

  Raises:
    UserError: The processes do not see the same steps.
  """
  steps = [step for step in _steps_of_all(directory) if step <= last]
  return any(not _damage(directory / str(step)) for step in reversed(steps))


def latest_whole(directory: epath.Path) -> int | None:
  """Returns the latest step that is intact; None if there are no steps.

  A single process may call it. Nothing is moved.

  Raises:
    UserError: All steps are damaged, or they cannot be reached.
  """
  with reached(directory):
    steps = steps_in(directory)
    for step in reversed(steps):
      if not manifest.damage(directory / str(step)):
        return step
  if steps:
    check(directory, steps[-1])
  return None


def _steps_of_all(directory: epath.Path) -> list[int]:
  """Like `steps_in`, after checking that all processes see the same.

  Raises:
    UserError: They do not see the same steps; raised on all processes.
  """
  seen = same_view.views(
    lambda: json.dumps(steps_in(directory)), str(directory)
  )
  others = [i for i, steps in enumerate(seen) if steps != seen[0]]
  if others:
    raise UserError(
      f"Process 0 sees the checkpoints {seen[0]} in {directory},"
      f" {same_view.named(others[:1])} sees {seen[others[0]]}. Wait until the"
      " file system shows all hosts the same, and restart all processes; or"
      " give a --workdir in a bucket (gs://BUCKET/...)."
    )
  return json.loads(seen[0])


def _move(step: epath.Path, aside: epath.Path) -> None:
  if buckets.is_bucket(step):
    # Without it the rest is not a step, whenever this is interrupted.
    buckets.move(step, aside, first=[atomic_commit.COMMITTED])
  else:
    step.rename(aside)


def check(directory: epath.Path, step: int) -> None:
  """Raises UserError if a step is damaged, naming one to try instead.

  Also raises if it cannot be reached. A single process may call it, and checks
  the whole step.
  """
  with reached(directory):
    damage = manifest.damage(directory / str(step))
    if not damage:
      return
    others = [other for other in steps_in(directory) if other != step]
  instead = f"; try {directory / str(others[-1])}" if others else ""
  raise UserError(_described(directory, step, damage) + f"{instead}.")


def _damage(path: epath.Path) -> list[str]:
  """Lists the damage to a step; each process checks its share."""
  share = jax.process_index(), jax.process_count()
  texts = agreement.gather(json.dumps(manifest.damage(path, share=share)))
  return sorted({line for text in texts for line in json.loads(text)})


def _described(directory: epath.Path, step: int, damage: list[str]) -> str:
  more = f" and {len(damage) - 1} more" if len(damage) > 1 else ""
  return f"The checkpoint {directory / str(step)} is damaged: {damage[0]}{more}"


def _free_name(path: epath.Path) -> epath.Path:
  candidates = (path.with_name(f"{path.name}-{i}") for i in itertools.count(2))
  return next(p for p in itertools.chain([path], candidates) if not p.exists())
