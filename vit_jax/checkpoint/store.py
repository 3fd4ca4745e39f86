"""Checkpoints of a run: Orbax's manager behind a few calls."""

import itertools
import json
import logging
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from jaxtyping import PyTree
from orbax.checkpoint import checkpoint_managers as policies

from vit_jax.checkpoint import manifest, sealed
from vit_jax.errors import UserError
from vit_jax.sharding import agreement

DIRECTORY = "checkpoints"
_logger = logging.getLogger(__name__)


class CheckpointStore:
  """The directory `checkpoints/` of a workdir.

  A step is there once all of it and its manifest are written: a kill in the
  middle of a save leaves the step before it as the newest. When the store is
  opened, the newest step is compared with its manifest; if it is damaged it is
  renamed to `damaged-STEP` and the one before it takes its place.

  Args:
    workdir: the run's directory.
    keep_last: newest checkpoints kept.
    keep_every_steps: multiples of this are kept for ever.
    keep_multiples: (n, m): the newest m multiples of n are kept too.

  Raises:
    UserError: the directory cannot be reached, or all steps are damaged.
  """

  def __init__(
    self,
    workdir: epath.PathLike,
    *,
    keep_last: int = 1,
    keep_every_steps: int | None = None,
    keep_multiples: tuple[int, int] | None = None,
  ):
    self.path = epath.Path(workdir) / DIRECTORY
    preserve = [policies.LatestN(keep_last)]
    if keep_every_steps:
      preserve.append(policies.EveryNSteps(keep_every_steps))
    if keep_multiples:
      steps, count = keep_multiples
      preserve.append(policies.EveryNSteps(steps, max_to_keep=count))
    try:
      # Before the manager is made, which reads files of every step.
      _set_damaged_aside(self.path)
      self._manager = ocp.CheckpointManager(
        self.path.resolve(),
        options=ocp.CheckpointManagerOptions(
          preservation_policy=policies.AnyPreservationPolicy(preserve),
          cleanup_tmp_directories=True,
          lightweight_initialize=True,
          temporary_path_class=sealed.path_class(self.path),
        ),
      )
    except OSError as error:
      raise UserError(
        f"The checkpoints of {workdir} cannot be reached:"
        f" {error.strerror or error}."
      ) from None

  def latest_step(self) -> int | None:
    """The newest complete step, or None."""
    return self._manager.latest_step()

  def all_steps(self) -> list[int]:
    """Complete steps, ascending."""
    return sorted(self._manager.all_steps())

  def go_back(self, step: int) -> int | None:
    """Removes all steps after `step`; returns the newest that is left."""
    self._manager.wait_until_finished()
    for later in self.all_steps():
      if later > step:
        self._manager.delete(later)
    return self.latest_step()

  def metadata(self, step: int) -> dict[str, Any]:
    """The JSON that was saved with `step`."""
    restored = self._manager.restore(
      step, args=ocp.args.Composite(metadata=ocp.args.JsonRestore())
    )
    return restored["metadata"]

  def restore(self, step: int, abstract_state: PyTree) -> PyTree:
    """The state saved at `step`, on the shardings of `abstract_state`.

    Args:
      step: one that exists.
      abstract_state: ShapeDtypeStructs with shardings; the mesh may differ
        from the one that the state was saved from.
    """
    restored = self._manager.restore(
      step,
      args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract_state)),
    )
    return restored["state"]

  def save(self, step: int, state: PyTree, metadata: dict[str, Any]) -> None:
    """Starts to write `state`; returns when its arrays may be donated."""
    if step == self.latest_step():
      return
    self._manager.save(
      step,
      args=ocp.args.Composite(
        state=ocp.args.StandardSave(state),
        metadata=ocp.args.JsonSave(metadata),
      ),
      force=True,
    )

  def check(self) -> None:
    """Raises the error of an asynchronous save that failed."""
    self._manager.check_for_errors()

  def reached_preemption(self, step: int) -> bool:
    """Whether all processes agree to save and stop after `step`."""
    return self._manager.reached_preemption(step)

  def close(self) -> None:
    """Waits for saves under way; raises the error of one that failed."""
    self._manager.wait_until_finished()
    self._manager.close()


def steps_in(directory: epath.Path) -> list[int]:
  """The complete steps in a `checkpoints/`, damaged or not, in order."""
  if not directory.exists():
    return []
  names = (entry.name for entry in directory.iterdir())
  return sorted(int(name) for name in names if name.isdigit())


def _set_damaged_aside(directory: epath.Path) -> None:
  """Renames the newest steps as long as they are damaged."""
  damaged = {}
  for step in reversed(steps_in(directory)):
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
      (directory / str(step)).rename(aside)
      _logger.error(
        "%s. It is set aside as %s, and the checkpoint before it is used; its"
        " steps will be trained again.",
        _described(directory, step, found),
        aside,
      )
  agreement.gather("damaged steps are out of the way")


def _damage(path: epath.Path) -> list[str]:
  """What is wrong with a step; each process looks at its share."""
  share = jax.process_index(), jax.process_count()
  texts = agreement.gather(json.dumps(manifest.damage(path, share=share)))
  return sorted({line for text in texts for line in json.loads(text)})


def _described(directory: epath.Path, step: int, damage: list[str]) -> str:
  more = f" and {len(damage) - 1} more" if len(damage) > 1 else ""
  return f"The checkpoint {directory / str(step)} is damaged: {damage[0]}{more}"


def _free_name(path: epath.Path) -> epath.Path:
  candidates = (path.with_name(f"{path.name}-{i}") for i in itertools.count(2))
  return next(p for p in itertools.chain([path], candidates) if not p.exists())


def read_params(workdir: epath.PathLike, step: int) -> PyTree:
  """Parameters for evaluation, as NumPy arrays: the average if it was saved.

  Reads nothing else of the state, and leaves the run's directory as it is.

  Raises:
    UserError: the files are not those that were written.
  """
  directory = epath.Path(workdir).resolve() / DIRECTORY
  path = directory / str(step)
  damage = _damage(path)
  if damage:
    others = [other for other in steps_in(directory) if other != step]
    instead = f"; try {directory / str(others[-1])}" if others else ""
    raise UserError(_described(directory, step, damage) + f"{instead}.")
  handler = ocp.CompositeCheckpointHandler(
    state=ocp.PyTreeCheckpointHandler(), metadata=ocp.JsonCheckpointHandler()
  )
  with ocp.Checkpointer(handler) as checkpointer:
    saved = checkpointer.metadata(path).item_metadata["state"].tree
    name = "params" if saved["ema_params"] is None else "ema_params"
    target = {name: jax.tree.map(lambda leaf: 0, saved[name])}
    restore_args = jax.tree.map(
      lambda _: ocp.RestoreArgs(restore_type=np.ndarray), target
    )
    wanted = ocp.args.PyTreeRestore(
      item=target, restore_args=restore_args, partial_restore=True
    )
    restored = checkpointer.restore(path, ocp.args.Composite(state=wanted))
  return restored["state"][name]


def with_shardings(abstract: PyTree, shardings: PyTree) -> PyTree:
  """ShapeDtypeStructs that carry their shardings."""
  return jax.tree.map(
    lambda leaf, sharding: jax.ShapeDtypeStruct(
      leaf.shape, leaf.dtype, sharding=sharding
    ),
    abstract,
    shardings,
  )
