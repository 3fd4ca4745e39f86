"""Reaction of a run to non-finite numbers: `config.faults`."""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from vit_jax import rngs, trees
from vit_jax.errors import DivergedError
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.training import nonfinite
from vit_jax.training.data_stream import DataStream
from vit_jax.training.experiment import Experiment
from vit_jax.training.state import TrainState

_logger = logging.getLogger(__name__)
_ADVICE = (
  " Lower config.schedule.base_lr, lengthen config.schedule.warmup_steps, or"
  " set config.optimizer.grad_clip_norm."
)


class _RollBack(Exception):
  """A return to an earlier checkpoint is needed; the message says why."""

  def __init__(self, step: int, message: str):
    super().__init__(message)
    self.step = step


class Recovery:
  """Stops, skips an update, or rolls back to an earlier checkpoint.

  Its behaviour depends only on the steps, not on when the run was stopped and
  restarted.

  Args:
    parts: Parts of the experiment.
    directory: Directory of the run.
    data_stream: Stream of its batches.
    clock: Clock of the run; rolling back counts as phase 'restore'.
  """

  def __init__(
    self,
    parts: Experiment,
    directory: RunDirectory,
    data_stream: DataStream,
    clock: Clock,
  ):
    self._parts = parts
    self._clock = clock
    self._faults = parts.config.faults
    self._directory = directory
    self._data_stream = data_stream
    self._finite_leaves = jax.jit(
      _finite_leaves, out_shardings=mesh_lib.replicated(parts.mesh)
    )

  def train(
    self,
    run: Callable[[TrainState], tuple[TrainState, int]],
    state: TrainState,
  ) -> tuple[TrainState, int]:
    """Calls `run` with the state, and again after each rollback."""
    while True:
      try:
        return run(state)
      except _RollBack as fault:
        state = self._go_back(fault)

  def not_finite(
    self,
    step: int,
    values: Mapping[str, Any],
    batch: Mapping[str, Any],
    state: TrainState,
  ) -> None:
    """Handles a step whose update was not applied.

    Args:
      step: Number of updates, including this one.
      values: Metrics of the update.
      batch: Batch on which they were measured.
      state: Latest state.

    Raises:
      DivergedError: The run must end; the message names the first bad tensor.
    """
    bad = nonfinite.first_bad_tensor(
      self._parts.objective,
      state.params,
      self._parts.constants,
      state.objective_state,
      batch,
      functools.partial(rngs.stream, self._parts.config.seed, step=step - 1),
      step - 1,
      values["grad_finite"],
      self._parts.config.train.accumulate_steps,
    )
    what = (
      f"at step {step}: loss {values['loss']:g}, gradient norm"
      f" {values['grad_norm']:g}. The first tensor that is not finite is {bad}."
    )
    if self._faults.not_finite == "skip":
      self._data_stream.skipped_steps += 1
      self._raise_if_too_many(self._data_stream.skipped_steps, "left out", what)
      _warn("The update is left out %s", what)
      return
    self._give_up(step, what)

  def spike(self, step: int, values: Mapping[str, Any]) -> None:
    """Reports a spike, whose update may have been skipped."""
    self._data_stream.spikes += 1
    left_out = self._faults.on_spike == "skip"
    _warn(
      "Step %d is a spike%s: loss %g, gradient norm %g.",
      step,
      ", and its update is left out" if left_out else "",
      values["loss"],
      values["grad_norm"],
    )

  def checked(self, step: int, state: TrainState) -> TrainState:
    """Returns `state`, which is about to be saved, if it is entirely finite.

    Raises:
      DivergedError: The state is not finite, and the run must end.
    """
    flags = np.asarray(self._finite_leaves(state))
    if not flags.all():
      names = [name for name, _ in trees.named_leaves(state)]
      bad = names[int(flags.argmin())]
      self._give_up(
        step, f"at step {step}, which is not saved: {bad} is not finite."
      )
    return state

  def _give_up(self, step: int, what: str) -> None:
    if self._faults.not_finite == "roll_back":
      raise _RollBack(step, what)
    saved = self._directory.store.latest_step()
    kept = (
      f" The checkpoint of step {saved} is untouched."
      if saved is not None
      else " No checkpoint had been saved yet."
    )
    raise DivergedError(f"Training stopped {what}{kept}{_ADVICE}")

  def _go_back(self, fault: _RollBack) -> TrainState:
    """Returns the run to a save before the fault."""
    wanted = self._save_before(fault.step)
    seen = self._data_stream.row(fault.step)
    saved = self._directory.go_back(wanted, seen)
    if saved is None:
      raise DivergedError(
        f"Training stopped {fault} There is no checkpoint of step {wanted} to"
        " go back to, nor one before it."
      )
    step, position = saved
    self._data_stream.leave_out(fault.step, step, position)
    self._raise_if_too_many(
      self._data_stream.roll_backs, "gone back from", str(fault)
    )
    _warn(
      "Going back from step %d to %d, and on with other examples. Stopped %s",
      fault.step,
      step,
      fault,
    )
    with self._clock.phase("restore"):
      return self._directory.restore_or_init()

  def _save_before(self, step: int) -> int:
    """Returns the step to roll back to after a fault at `step`.

    Counts saves that are due according to the config rather than existing ones,
    so that a save made because the run was asked to stop changes nothing. If
    there are too few, the first is used. If the interval was different before,
    the saves that were due then count.
    """
    every = self._parts.steps(self._parts.config.checkpoint.every_steps)
    num_saves = (step - 1) // every
    back = self._faults.roll_back_checkpoints
    wanted = max(num_saves + 1 - back, min(num_saves, 1)) * every
    intervals = self._directory.saves_due()
    due = sorted(found for found in intervals if found < step)
    is_constant = all(intervals[found] == every for found in due)
    return wanted if is_constant else due[-back:][0]

  def _raise_if_too_many(self, count: int, done: str, what: str) -> None:
    if count > self._faults.max_not_finite:
      raise DivergedError(
        f"Training stopped {what} Steps have been {done}"
        f" {self._faults.max_not_finite} times already"
        f" (config.faults.max_not_finite).{_ADVICE}"
      )


def _warn(message: str, *values: object) -> None:
  """Logs on the first process only; all processes see the same values."""
  if jax.process_index() == 0:
    _logger.warning(message, *values)


def _finite_leaves(state: TrainState) -> Bool[Array, " leaves"]:
  return jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(state)])
