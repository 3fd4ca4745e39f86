"""Checkpoints of a run: a small interface to Orbax's manager."""

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from jaxtyping import PyTree
from orbax.checkpoint import checkpoint_managers as policies

from vit_jax import buckets, trees
from vit_jax.checkpoint import atomic_commit, orbax_private, verification

DIRECTORY = "checkpoints"
# Time to wait for a failed save's threads; number of attempts to remove its
# remains, and pause between them.
_WRITERS_SECONDS = 10
_REMOVALS = 20
_PAUSE_SECONDS = 0.1


class SaveError(Exception):
  """A checkpoint could not be written; earlier ones are unaffected.

  Attributes:
    step: The missing step.
    reason: One-line explanation.
  """

  def __init__(self, step: int, error: BaseException):
    self.step = step
    self.reason = _reason(error)
    super().__init__(f"step {step}: {self.reason}")


class _Manager(ocp.CheckpointManager):
  """Orbax's manager, reporting a failed asynchronous save immediately.

  The original `check_for_errors` does not: a thread of the manager takes the
  error and keeps it until the next save or, with several processes, until a
  timeout.

  It does not ask whether the run should stop: such queries are counted, and
  `processes.stopping` makes them.
  """

  failure: BaseException | None = None

  def _wait_for_checkpointers(self) -> None:  # Called in that thread.
    try:
      super()._wait_for_checkpointers()
    except BaseException as error:
      self.failure = error
      raise

  def reached_preemption(self, step: int) -> bool:
    del step
    return False


class _FirstOf(policies.PreservationPolicy):
  """Keeps the first of `steps` that exists; `steps` may change."""

  steps: Sequence[int] = ()

  def should_preserve(
    self, checkpoints: Sequence[Any], **unused: object
  ) -> list[bool]:
    there = {checkpoint.step for checkpoint in checkpoints}
    kept = next((step for step in self.steps if step in there), None)
    return [checkpoint.step == kept for checkpoint in checkpoints]


class CheckpointStore:
  """The directory `checkpoints/` of a workdir.

  A step exists once all of it and its manifest are written: after a kill in the
  middle of a save, the previous step is the latest. When the store is opened,
  the latest step is compared with its manifest; if it is damaged, it is moved
  to `damaged-STEP` and the previous one is used instead.

  Args:
    workdir: Directory of the run.
    keep_last: Number of latest checkpoints to keep.
    keep_every_steps: Steps that are multiples of this are never removed.
    keep_multiples: (n, m) to also keep the latest m multiples of n.

  Raises:
    UserError: The directory cannot be reached, or all steps are damaged.
    JaxRuntimeError or ValueError: Another process was lost in the meantime.
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
    self._saving = 0
    self._broken = False
    self._kept = _FirstOf()
    preserve = [policies.LatestN(keep_last), self._kept]
    if keep_every_steps:
      preserve.append(policies.EveryNSteps(keep_every_steps))
    if keep_multiples:
      steps, count = keep_multiples
      preserve.append(policies.EveryNSteps(steps, max_to_keep=count))
    orbax_private.write_small_arrays_whole()
    orbax_private.end_writes_of_failed_saves()
    with verification.reached(self.path):
      # Before the manager is created, which reads files of every step.
      steps = verification.set_damaged_aside(self.path)
      self._manager = _Manager(
        buckets.absolute(self.path),
        options=ocp.CheckpointManagerOptions(
          preservation_policy=policies.AnyPreservationPolicy(preserve),
          cleanup_tmp_directories=True,
          lightweight_initialize=True,
          temporary_path_class=atomic_commit.path_class(self.path),
        ),
      )
      self._check_it_sees(steps)

  def _check_it_sees(self, steps: Sequence[int]) -> None:
    """Raises OSError if the manager misses existing steps.

    Orbax treats storage errors as the absence of a step, or of all steps.
    """
    if unseen := set(steps) - set(self.all_steps()):
      why = f"that of step {max(unseen)} is there, but could not be looked at"
      raise OSError(errno.EIO, why)

  def keep(self, steps: Sequence[int]) -> None:
    """Also keeps the first of these steps that exists.

    If the save of a step failed, the next one is kept instead.
    """
    self._kept.steps = tuple(steps)

  def latest_step(self) -> int | None:
    """Returns the latest complete step, or None."""
    return self._manager.latest_step()

  def all_steps(self) -> list[int]:
    """Returns the complete steps in ascending order."""
    return sorted(self._manager.all_steps())

  def has_whole_step(self, step: int) -> bool:
    """Returns True if `step` or an earlier one exists and is not damaged.

    Raises:
      SaveError: A save in progress failed.
      UserError: The directory cannot be reached.
    """
    self.wait()
    with verification.reached(self.path):
      return verification.has_whole(self.path, step)

  def go_back(self, step: int) -> int | None:
    """Removes all steps after `step`; returns the latest remaining one.

    Raises:
      SaveError: A save in progress failed.
      UserError: All remaining checkpoints are damaged, or the directory cannot
        be reached.
    """
    self.wait()
    with verification.reached(self.path):
      for later in self.all_steps():
        if later > step:
          self._manager.delete(later)
      steps = verification.set_damaged_aside(self.path)
      self._manager.reload()
      self._check_it_sees(steps)
    return self.latest_step()

  def metadata(self, step: int) -> dict[str, Any]:
    """Returns the JSON saved with `step`; UserError if it is unreachable."""
    with verification.reached(self.path):
      restored = self._manager.restore(
        step, args=ocp.args.Composite(metadata=ocp.args.JsonRestore())
      )
    return restored["metadata"]

  def shapes(self, step: int) -> dict[str, tuple[int, ...]]:
    """Returns shapes of the arrays saved at `step` by path, without reading."""
    return _shapes(buckets.absolute(self.path) / str(step))

  def restore(self, step: int, abstract_state: PyTree) -> PyTree:
    """Restores the state saved at `step`, sharded like `abstract_state`.

    Args:
      step: Step of a checkpoint that exists.
      abstract_state: ShapeDtypeStructs with shardings; the mesh may differ from
        that of the saved state.

    Raises:
      UserError: The checkpoint cannot be reached.
    """
    with verification.reached(self.path):
      restored = self._manager.restore(
        step,
        args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract_state)),
      )
    return restored["state"]

  def save(self, step: int, state: PyTree, metadata: dict[str, Any]) -> None:
    """Starts writing `state`; returns when its arrays may be donated.

    Raises:
      SaveError: This save could not be started, or the previous one failed.
    """
    self.wait()
    if step == self.latest_step():
      return
    self._saving = step
    try:
      self._manager.save(
        step,
        args=ocp.args.Composite(
          state=ocp.args.StandardSave(state),
          metadata=ocp.args.JsonSave(metadata),
        ),
        force=True,
      )
    except Exception as error:
      self._fail(error)

  def check(self) -> None:
    """Raises SaveError if a save in progress has failed; does not wait."""
    if self._manager.failure is not None:
      self._fail(self._manager.failure)

  def wait(self) -> None:
    """Waits for a save in progress; raises SaveError if it failed."""
    try:
      self._manager.wait_until_finished()
    except Exception as error:
      self._fail(error)

  def _fail(self, error: BaseException) -> NoReturn:
    self._manager.failure = None
    if jax.process_count() == 1:
      with contextlib.suppress(Exception):
        self._manager.wait_until_finished()
      _wait_for_writers()
      self._remove_remains()
      # It forgot the steps that the new one would have replaced.
      with contextlib.suppress(Exception):
        self._manager.reload()
    else:
      # The other processes may wait for this one until they notice that it
      # ended.
      self._broken = True
    raise SaveError(self._saving, error) from error

  def _remove_remains(self) -> None:
    """Removes a failed save's remains; the next start retries failures."""
    for _ in range(_REMOVALS):
      # Another thread may still write into them or recreate them.
      with contextlib.suppress(OSError), buckets.as_os_error(self.path):
        if not self._try_to_remove_remains():
          return
      time.sleep(_PAUSE_SECONDS)

  def _try_to_remove_remains(self) -> bool:
    """Removes the remains; returns whether there were any."""
    remains = [
      path
      for path in self.path.iterdir()
      if atomic_commit.TEMPORARY in path.name
    ]
    for path in remains:
      path.rmtree(missing_ok=True)
    saving = self.path / str(self._saving)
    if saving.exists() and not atomic_commit.is_whole(saving):
      saving.rmtree(missing_ok=True)
      return True
    return bool(remains)

  def close(self) -> None:
    """Waits for a save in progress; raises SaveError if it failed."""
    if self._broken:
      return
    self.wait()
    self._manager.close()


def _wait_for_writers() -> None:
  """Waits for a save's threads, which keep writing after one has failed.

  They would recreate files that are being removed.
  """
  deadline = time.monotonic() + _WRITERS_SECONDS
  for thread in threading.enumerate():
    if orbax_private.is_writer(thread):
      # Not its own `join`, which would raise its error.
      threading.Thread.join(thread, max(0, deadline - time.monotonic()))


def _reason(error: BaseException) -> str:
  """Returns the system's message, without the additions of other layers."""
  text = " ".join(str(error).split())
  plain = (os.strerror(code) for code in sorted(errno.errorcode))
  long = (words for words in plain if " " in words and words in text)
  return next(long, text[:300] or type(error).__name__)


class _Quiet(logging.Filter):
  """Drops Orbax's stack traces; a `SaveError` says what went wrong."""

  def filter(self, record: logging.LogRecord) -> bool:
    return not (record.exc_info and "orbax" in record.pathname)


logging.getLogger("absl").addFilter(_Quiet())


def read_params(
  workdir: epath.PathLike,
  step: int,
  exported: Callable[[PyTree, PyTree], PyTree] | None = None,
) -> PyTree:
  """Reads parameters for evaluation as NumPy arrays, averaged if saved so.

  It reads no optimizer state and does not change the run's directory.

  Args:
    workdir: Directory of the run.
    step: Step of the checkpoint.
    exported: `(params, objective_state) -> params`, which selects what an
      objective exports; None for the parameters.

  Raises:
    UserError: The files differ from those that were written, or cannot be
      reached.
  """
  directory = buckets.absolute(workdir) / DIRECTORY
  path = directory / str(step)
  verification.check(directory, step)
  handler = ocp.CompositeCheckpointHandler(
    state=ocp.PyTreeCheckpointHandler(), metadata=ocp.JsonCheckpointHandler()
  )
  with (
    verification.reached(directory),
    ocp.Checkpointer(handler) as checkpointer,
  ):
    saved = checkpointer.metadata(path).item_metadata["state"].tree
    name = "params" if saved["ema_params"] is None else "ema_params"
    target = {name: jax.tree.map(lambda leaf: 0, saved[name])}
    if exported and saved.get("objective_state"):
      target["objective_state"] = jax.tree.map(
        lambda leaf: 0, saved["objective_state"]
      )
    restore_args = jax.tree.map(
      lambda _: ocp.RestoreArgs(restore_type=np.ndarray), target
    )
    wanted = ocp.args.PyTreeRestore(
      item=target, restore_args=restore_args, partial_restore=True
    )
    restored = checkpointer.restore(path, ocp.args.Composite(state=wanted))
  state = restored["state"]
  if exported is None:
    return state[name]
  return exported(state[name], state.get("objective_state", {}))


def read_description(
  workdir: epath.PathLike, step: int
) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
  """Reads the metadata of a checkpoint and the shapes of its arrays, by path.

  It does not change the run's directory.

  Raises:
    UserError: The checkpoint cannot be reached.
  """
  path = buckets.absolute(workdir) / DIRECTORY / str(step)
  with verification.reached(path.parent):
    saved = ocp.JsonCheckpointHandler().restore(path / "metadata")
  return saved, _shapes(path)


def _shapes(path: epath.Path) -> dict[str, tuple[int, ...]]:
  with verification.reached(path.parent):
    saved = ocp.PyTreeCheckpointHandler().metadata(path / "state").tree
  return {name: tuple(x.shape) for name, x in trees.named_leaves(saved)}


def with_shardings(abstract: PyTree, shardings: PyTree) -> PyTree:
  """Returns ShapeDtypeStructs with their shardings."""
  return jax.tree.map(
    lambda leaf, sharding: jax.ShapeDtypeStruct(
      leaf.shape, leaf.dtype, sharding=sharding
    ),
    abstract,
    shardings,
  )
