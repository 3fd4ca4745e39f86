"""Checkpoints of a run: Orbax's manager behind four calls."""

from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from jaxtyping import PyTree
from orbax.checkpoint import checkpoint_managers as policies

from vit_jax.errors import UserError

DIRECTORY = "checkpoints"


class CheckpointStore:
  """The directory `checkpoints/` of a workdir.

  A step is there once all of it is written: a kill in the middle of a save
  leaves the step before it as the newest.

  Args:
    workdir: the run's directory.
    keep_last: newest checkpoints kept.
    keep_every_steps: multiples of this are kept for ever.
  """

  def __init__(
    self,
    workdir: epath.PathLike,
    *,
    keep_last: int = 1,
    keep_every_steps: int | None = None,
  ):
    self.path = epath.Path(workdir) / DIRECTORY
    preserve = [policies.LatestN(keep_last)]
    if keep_every_steps:
      preserve.append(policies.EveryNSteps(keep_every_steps))
    try:
      self._manager = ocp.CheckpointManager(
        self.path.resolve(),
        options=ocp.CheckpointManagerOptions(
          preservation_policy=policies.AnyPreservationPolicy(preserve),
          cleanup_tmp_directories=True,
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


def read_params(workdir: epath.PathLike, step: int) -> PyTree:
  """Parameters for evaluation, as NumPy arrays: the average if it was saved.

  Reads nothing else of the state, and leaves the run's directory as it is.
  """
  path = epath.Path(workdir).resolve() / DIRECTORY / str(step)
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
