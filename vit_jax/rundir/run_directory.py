"""The directory of a run: its files, and the step to resume from."""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import jax
from etils import epath

from vit_jax import buckets
from vit_jax.checkpoint import resume
from vit_jax.checkpoint.store import CheckpointStore, SaveError
from vit_jax.errors import DivergedError, LostError, UserError
from vit_jax.processes import agreement, liveness
from vit_jax.rundir import initial_state, resuming, same_workdir
from vit_jax.rundir.best_checkpoint import BestCheckpoint
from vit_jax.rundir.contract import Run
from vit_jax.rundir.position import Position
from vit_jax.rundir.run_records import RunRecords
from vit_jax.rundir.timing import Clock
from vit_jax.rundir.workdir_lock import WorkdirLock

_logger = logging.getLogger(__name__)


class RunDirectory:
  """Checkpoints, metrics, config and summary of one run.

  Attributes:
    path: Path of the directory.
    store: Checkpoints of the run.
    first_step: Number of updates already done by an earlier run in it.
    position: Position in its data from which to resume.
    facts: Further facts for the summary, by key.
    is_over: True if no step is left to train: the run has reached its length or
      was stopped early.
    evaluation_due: True if the evaluation of that step was left unfinished.
    best_checkpoint: Keeper of the checkpoint of the best evaluation.

  Args:
    workdir: Directory, created if it does not exist.
    parts: Parts of the experiment.
    clock: Clock whose phases appear in the summary.

  Raises:
    UserError: The directory or a file in it cannot be read or written, is used
      by another job, contains another run or one longer than this, or is not
      the same for all processes.
  """

  def __init__(self, workdir: str, parts: Run, clock: Clock):
    self.path = epath.Path(workdir)
    self._parts = parts
    self._clock = clock
    self._is_first = jax.process_index() == 0
    buckets.check_workdir(self.path)
    _make_writable(self.path)
    agreement.gather("")  # No process locks what another cannot write to.
    self._records: RunRecords | None = None
    self._is_ending = False
    self._lock = _lock(self.path)
    try:
      self._open()
    except BaseException as error:
      if self._records:
        self._records.abort()
      self.release()
      if not isinstance(error, OSError):
        raise
      raise UserError(
        f"{error.filename or self.path} cannot be read or written"
        f" ({error.strerror or error}); fix that and start the run again."
      ) from error

  def _open(self) -> None:
    parts = self._parts
    config = parts.config
    same_workdir.check(self.path)
    self.store = CheckpointStore(
      self.path,
      keep_last=config.checkpoint.keep_last,
      keep_every_steps=parts.steps(config.checkpoint.keep_every_steps),
      keep_multiples=_kept_to_go_back(parts),
    )
    latest = self.store.latest_step()
    self.first_step, self.position = 0, Position()
    self.evaluation_due = False
    self._changed: list[str] = []
    # Read before the step is compiled, which may take a while.
    self._start = initial_state.find(parts) if latest is None else None
    saved = None if latest is None else self.store.metadata(latest)
    resume.check_allowed(resuming.metadata(parts), saved)
    if latest is not None:
      resuming.check(self.path, parts, latest, saved, self.store.shapes(latest))
      self.first_step = latest
      self.position = Position.of(saved)
      self.evaluation_due = saved.get("evaluation_due", False)
    self._unsaved: SaveError | None = None
    if self._is_first:
      self._records = RunRecords(
        self.path, parts, self._clock, self.first_step, self.position
      )
    self.best_checkpoint = BestCheckpoint(config, self.store)
    self._find_best()
    if self.evaluation_due:
      # It may have been completed before the run was killed.
      known = self._records is not None and self._records.has_evaluation(
        self.first_step
      )
      self.evaluation_due = not agreement.gather("known" * known)[0]
    self.is_over = self.first_step >= parts.total_steps or (
      self.best_checkpoint.is_in_vain and not self.evaluation_due
    )
    described = config
    if saved is not None and self.is_over:
      described = resume.as_trained(saved, config)
    if saved is not None:
      self._changed = resume.changed(
        saved, resuming.metadata(parts), is_over=self.is_over
      )
    self.facts: dict[str, Any] = {resume.CHANGED: self._changed}
    if self._records:
      self._records.describe(described, is_over=self.is_over)

  def _find_best(self) -> None:
    at = self._records.metrics_path if self._records else None
    self.best_checkpoint.find(at)

  @property
  def records_path(self) -> epath.Path:
    """Returns the directory of records, a local one if this is in a bucket."""
    return self._records.path if self._records else self.path

  def track(self) -> None:
    """Starts sending the metrics to the trackers of `config.log.to`."""
    if self._records:
      self._records.track()

  def go_back(self, step: int, seen: int) -> tuple[int, Position] | None:
    """Makes the run resume from `step` or the latest complete save before it.

    Later checkpoints and lines of metrics are removed.

    Args:
      step: Number of updates to go back to.
      seen: Number of images in all batches so far, for the summary.

    Returns:
      The step to resume from and the position there; None, without any changes,
      if there is none. Step 0 is always available.

    Raises:
      UserError: A pending save failed, and `config.checkpoint.on_save_error` is
        not 'continue'.
    """
    with self._alarm():
      self.store.wait()
    if step and not self.store.has_whole_step(step):
      return None
    self.first_step = self.store.go_back(step) or 0
    self.position = Position()
    if self.first_step:
      self.position = Position.of(self.store.metadata(self.first_step))
    if self._records:
      self._records.went_back(self.first_step, seen)
    self._find_best()
    return self.first_step, self.position

  def saves_due(self) -> dict[int, int]:
    """Returns step -> interval of the saves that were due when they were made.

    Excludes saves made because the run was asked to stop or a metric was best,
    and those for which this cannot be read. The interval may have changed
    since.

    Raises:
      UserError: As for `go_back`.
    """
    with self._alarm():
      self.store.wait()
    found = {}
    for step in self.store.all_steps():
      # Damaged steps are set aside when the run goes back.
      with contextlib.suppress(UserError, ValueError, KeyError, TypeError):
        config = self.store.metadata(step)["config"]
        every = self._parts.steps(config["checkpoint"]["every_steps"])
        if step % every == 0:
          found[str(step)] = every
    found = json.loads(agreement.gather(json.dumps(found))[0])
    return {int(step): every for step, every in found.items()}

  def restore_or_init(self) -> Any:
    """Returns the state to resume from: saved, from `init_from`, or new.

    Raises:
      UserError: `config.init_from` does not fit the model.
    """
    parts = self._parts
    if self.first_step:
      return self.store.restore(self.first_step, parts.abstract_state)
    found, self._start = self._start, None
    return initial_state.make(parts, found or initial_state.find(parts))

  def save(
    self,
    step: int,
    state: Any,
    position: Position,
    *,
    evaluation_due: bool = False,
  ) -> None:
    """Starts writing a checkpoint, after the previous one is complete.

    Args:
      step: Number of updates done.
      state: State after these updates.
      position: Position of the next batch.
      evaluation_due: True to leave the evaluation of this step to the next
        start.

    Raises:
      UserError: Another job has taken over the directory, or a save failed and
        `config.checkpoint.on_save_error` is not 'continue'.
    """
    self.check()
    with self._alarm():
      self.store.wait()
    self._unsaved = None
    if self._records:
      self._records.upload()  # Lines up to a step precede its checkpoint.
    metadata = resuming.metadata(self._parts)
    metadata |= position.metadata() | {
      "evaluation_due": evaluation_due,
      resume.CHANGED: self._changed,
    }
    with self._alarm():
      self.store.save(step, state, metadata)
    if self._records:
      self._records.saved(step, position)

  @property
  def has_lines(self) -> bool:
    """Returns True if this start has written a line of metrics."""
    return self._records is not None and self._records.has_lines

  @property
  def is_ours(self) -> bool:
    """Returns True on the process that writes records, unless superseded."""
    return self._is_first and not (self._lock and self._lock.is_lost)

  def check(self) -> None:
    """Checks that this run may still write here; called at every step.

    Raises:
      UserError: As for `save`.
    """
    if self._lock:
      self._lock.check()
    with self._alarm():
      self.store.check()

  @contextlib.contextmanager
  def _alarm(self) -> Iterator[None]:
    """Ends the run if a save failed, or reports it if the config continues."""
    try:
      yield
    except SaveError as error:
      self._unsaved = error
      going_on = self._parts.config.checkpoint.on_save_error == "continue"
      if not going_on or jax.process_count() > 1:
        raise self._ending(error) from error
      _logger.error("ALARM: %s", self._sentence(error))

  def _ending(self, error: SaveError) -> UserError:
    """Returns the error that ends the run; a restart may fix the network."""
    is_lost = jax.process_count() > 1 and liveness.is_of_network(
      error.__cause__
    )
    sentence = self._sentence(error)
    if is_lost:
      return LostError(sentence)
    return UserError(f"{sentence} Fix that and start the same command again.")

  def _sentence(self, error: SaveError) -> str:
    before = [step for step in self.store.all_steps() if step < error.step]
    kept = (
      f"that of step {before[-1]} is untouched"
      if before
      else "no other had been saved"
    )
    return (
      f"The checkpoint of step {error.step} could not be saved in"
      f" {self.path}: {error.reason}; {kept}."
    )

  def mark(self, step: int) -> None:
    """Periodically records the seconds of this start up to `step`."""
    if self._records:
      self._records.mark(step)

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    """Writes a line of metrics.jsonl (first process only)."""
    if self._records:
      self._records.write(step, metrics)

  def finish(self, status: str) -> None:
    """Waits for the last checkpoint, then records the outcome in the summary.

    Args:
      status: 'running', 'finished', 'preempted', 'interrupted', 'diverged' or
        'failed'.

    Raises:
      UserError: The last checkpoint, or lines of the records, are missing.
    """
    self._is_ending = True
    if self._lock and self._lock.is_lost:
      self._abandon()
      return
    problem = None
    try:
      with self._clock.phase("save"):
        try:
          self.store.close()
        except SaveError as error:
          self._unsaved = error
      if self._unsaved:
        problem = self._ending(self._unsaved)
      if self._records:
        self._records.finish(
          "failed" if problem else status, self.best_checkpoint.best, self.facts
        )
    except OSError as error:
      if self._records:
        self._records.fail()
      problem = problem or UserError(
        f"The records of {self.path} cannot be written"
        f" ({error.strerror or error}); fix that and start the run again."
      )
    finally:
      self.release()
    if problem:
      raise problem

  def _abandon(self) -> None:
    """Leaves the records to the job that has taken over the directory."""
    with contextlib.suppress(SaveError):
      self.store.close()
    if self._records:
      self._records.abandon()
    self.release()

  def release(self) -> None:
    """Lets another job use the directory."""
    if self._lock:
      self._lock.release()

  def __enter__(self) -> "RunDirectory":
    return self

  def __exit__(
    self, kind: type | None, cause: BaseException | None, *unused: object
  ) -> None:
    """Finishes a run that an error ends: its saves and final status."""
    if kind is not None and not self._is_ending:
      diverged = issubclass(kind, DivergedError)
      try:
        self.finish("diverged" if diverged else "failed")
      except UserError as error:
        # The error that ends the run is about to be told.
        is_told = cause is not None and cause.__cause__ is self._unsaved
        if self._unsaved and not is_told:
          _logger.error("ALARM: %s", error)


def _kept_to_go_back(parts: Run) -> tuple[int, int] | None:
  """Returns the `keep_multiples` that `config.faults` needs, if any."""
  config = parts.config
  if config.faults.not_finite != "roll_back":
    return None
  every_steps = parts.steps(config.checkpoint.every_steps)
  return every_steps, config.faults.roll_back_checkpoints


def _make_writable(path: epath.Path) -> None:
  try:
    with buckets.as_os_error(path):
      path.mkdir(parents=True, exist_ok=True)
      probe = path / f".writable-{jax.process_index()}"
      probe.write_bytes(bytes(4096))  # A full disk accepts empty files.
      probe.unlink(missing_ok=True)  # Another job may be probing too.
  except OSError as error:
    raise UserError(
      f"The workdir {path} cannot be written to"
      f" ({error.strerror or error}); fix that, or choose another --workdir,"
      " in which the run begins at step 0."
    ) from None


def _lock(path: epath.Path) -> WorkdirLock | None:
  """Locks the directory on the first process, for all.

  Raises:
    UserError: Another job holds it; raised on all processes.
  """
  lock, refusal = None, ""
  if jax.process_index() == 0:
    try:
      lock = WorkdirLock(path)
    except UserError as error:
      refusal = str(error)
    except OSError as error:
      refusal = f"{path} cannot be locked ({error.strerror or error})."
  refusal = agreement.gather(refusal)[0]
  if refusal:
    raise UserError(refusal)
  return lock
