"""The directory of a run: its files, and the step a run in it resumes from."""

import contextlib
import dataclasses
import json
import logging
import pathlib
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import jax
from etils import epath

from vit_jax import buckets, records, trees, versions
from vit_jax.checkpoint import resume
from vit_jax.checkpoint.store import CheckpointStore, SaveError
from vit_jax.config import evaluator_declarations, resolve, schema
from vit_jax.errors import DivergedError, LostError, UserError
from vit_jax.pretrained import fitting, run_files, start
from vit_jax.processes import agreement, liveness
from vit_jax.rundir import (
  goodput,
  run_facts,
  run_length,
  same_classes,
  same_shapes,
  same_workdir,
)
from vit_jax.rundir.best_checkpoint import BestCheckpoint
from vit_jax.rundir.bucket_upload import BucketUpload
from vit_jax.rundir.position import Position
from vit_jax.rundir.timing import Clock
from vit_jax.rundir.trackers import memory
from vit_jax.rundir.trackers.contract import RunInfo
from vit_jax.rundir.trackers.run_trackers import RunTrackers
from vit_jax.rundir.workdir_lock import WorkdirLock

_METRICS = "metrics.jsonl"
_logger = logging.getLogger(__name__)


@runtime_checkable
class Run(Protocol):
  """The part of an experiment that its directory needs.

  Attributes:
    config: The resolved config.
    facts: Facts of the training data: `fingerprint`, `num_examples`,
      `class_names` and `tokenizer`.
    objective: The objective: `constants.digests`, `after_load` and
      `from_exported`.
    total_steps: Updates in the whole run.
    abstract_state: ShapeDtypeStructs of the train state with their shardings.
  """

  config: schema.Config
  facts: Any
  objective: Any
  total_steps: int
  abstract_state: Any

  def steps(self, interval: int | str | None) -> int | None:
    """Converts an interval of the config to steps; None stays None."""

  def init_state(self) -> Any:
    """Makes the train state of step 0 on its shardings."""


class RunDirectory:
  """Checkpoints, metrics, config and summary of one run.

  Attributes:
    path: Path of the directory.
    records_path: Directory for the records: the run's own or, if that is in a
      bucket, a local one that is copied to it.
    store: Checkpoints of the run.
    first_step: Updates already done by an earlier run in it.
    position: Position in its data to resume from.
    facts: Further facts for the summary, by key.
    evaluation_due: True if an evaluation of that step was left unfinished.
    best_checkpoint: Keeper of the checkpoint of the best evaluation.

  Args:
    workdir: Directory that is created if absent.
    parts: Parts of the experiment.
    clock: Clock whose phases appear in the summary.

  Raises:
    UserError: The directory cannot be written to, is used by another job,
      holds another run or one beyond this length, or is not the same for all
      processes.
  """

  def __init__(self, workdir: str, parts: Run, clock: Clock):
    self.path = epath.Path(workdir)
    self._parts = parts
    self._clock = clock
    self._is_first = jax.process_index() == 0
    buckets.check_workdir(self.path)
    _make_writable(self.path)
    self._spool: BucketUpload | None = None
    self._trackers: RunTrackers | None = None
    self._is_ending = False
    self._lock = _lock(self.path)
    try:
      self._open()
    except BaseException:
      with contextlib.suppress(OSError):
        if self._spool:
          self._spool.close()
      self.release()
      raise

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
    # Read before the step is compiled, which may take long.
    self._start = self._fit_start() if latest is None else None
    if latest is not None:
      saved = self.store.metadata(latest)
      same_classes.check(self.path, parts.facts.class_names)
      resume.check_same(
        saved,
        self._metadata(),
        allow_change=config.allow_change,
        workdir=self.path,
        misfits=same_shapes.misfits(
          self.store.shapes(latest), parts.abstract_state
        ),
      )
      run_length.check(self.path, latest, parts.total_steps)
      self.first_step = latest
      self.position = Position.of(saved)
      self.evaluation_due = saved.get("evaluation_due", False)
    # A step, and the images that batches were made of up to it.
    self._seen = self.first_step, self.position.first_example
    self._unsaved: SaveError | None = None
    self._has_lines = False
    self.facts: dict[str, str] = {}
    self._metrics = self._goodput = None
    self._values: dict[str, float] = {}
    self._step = self.first_step
    self.records_path = self.path
    if self._is_first:
      self._spool = self._open_spool()
      at = self.records_path = self._spool.path
      self._goodput = goodput.Goodput(
        at, self._clock, self.first_step, jax.device_count()
      )
      run_files.write_config(at, config)
      records.write_json(
        at / evaluator_declarations.FILE,
        evaluator_declarations.declarations(config),
      )
      run_files.write_class_names(at, parts.facts.class_names)
      if parts.facts.tokenizer is not None:
        run_files.write_tokenizer(at, parts.facts.tokenizer)
      self._open_metrics()
    self.best_checkpoint = BestCheckpoint(config, self.store)
    self._find_best()
    if self.evaluation_due:
      # It may have been caught up with before the run was killed.
      prefixes = evaluator_declarations.prefixes(config)
      known = self._is_first and self._metrics.has_any(
        self.first_step, prefixes
      )
      self.evaluation_due = not agreement.gather("known" * known)[0]

  def _find_best(self) -> None:
    at = self.records_path / _METRICS if self._is_first else None
    self.best_checkpoint.find(at)

  def _open_spool(self) -> BucketUpload:
    try:
      return BucketUpload(
        self.path, fetch=[_METRICS, goodput.FILE, memory.FILE]
      )
    except OSError as error:
      raise UserError(
        f"The records of {self.path} cannot be fetched"
        f" ({error.strerror or error}); mend that and start the run again."
      ) from error

  def _fit_start(self) -> start.Start | None:
    """Start given by `config.init_from`; None if it is not set."""
    state = self._parts.abstract_state
    return start.find(self._parts.config, state.params, state.objective_state)

  def _open_metrics(self) -> None:
    path = self.records_path / _METRICS
    self._metrics = records.MetricsFile(path, last_step=self.first_step)
    self._values, self._step = {}, self.first_step
    for line in records.read_lines(path):
      self._values.update(line)

  def track(self) -> None:
    """Begins to send the metrics to the trackers of `config.log.to`."""
    config = self._parts.config
    if not self._is_first or not config.log.to:
      return
    workdir = buckets.absolute(self.path)
    facts = run_facts.facts(config, self._parts.abstract_state.params)
    info = RunInfo(
      project=config.log.project,
      name=config.log.name or workdir.name,
      group=config.log.group,
      directory=pathlib.Path(self.records_path),
      config=json.loads(resolve.dump(config)),
      facts={"workdir": str(workdir), **facts},
    )
    earlier = records.read_lines(self.records_path / _METRICS)
    self._trackers = RunTrackers(config.log.to, info, earlier)

  def go_back(self, step: int) -> tuple[int, Position] | None:
    """Makes the run resume from `step`, or the newest whole save before it.

    Later checkpoints and lines are removed.

    Returns:
      The step gone back to and the position there; None if there is none, in
      which case all is left as it is. Step 0 is always there.

    Raises:
      UserError: A save under way failed, and `config.checkpoint.on_save_error`
        does not say to continue.
    """
    with self._alarm():
      self.store.wait()
    if step and not self.store.has_whole_step(step):
      return None
    self.first_step = self.store.go_back(step) or 0
    self.position = Position()
    if self.first_step:
      self.position = Position.of(self.store.metadata(self.first_step))
    self._seen = self.first_step, self.position.first_example
    if self._metrics:
      self._metrics.close()
      self._open_metrics()
      self._goodput.went_back(self.first_step)
    self._find_best()
    return self.first_step, self.position

  def saves_due(self) -> dict[int, int]:
    """Step -> interval, of the saves that were due when they were made.

    Not those made because the run was asked to stop or a metric was the best,
    nor those of which this cannot be read. The interval may have been changed
    since.

    Raises:
      UserError: As for `go_back`.
    """
    with self._alarm():
      self.store.wait()
    found = {}
    for step in self.store.all_steps():
      # What is damaged is set aside when the run goes back.
      with contextlib.suppress(UserError, ValueError, KeyError, TypeError):
        config = self.store.metadata(step)["config"]
        every = self._parts.steps(config["checkpoint"]["every_steps"])
        if step % every == 0:
          found[str(step)] = every
    found = json.loads(agreement.gather(json.dumps(found))[0])
    return {int(step): every for step, every in found.items()}

  def restore_or_init(self) -> Any:
    """The state to resume from: saved, from `init_from`, or new.

    Raises:
      UserError: `config.init_from` does not fit the model.
    """
    parts = self._parts
    if self.first_step:
      return self.store.restore(self.first_step, parts.abstract_state)
    state = parts.init_state()
    fitted = self._start or self._fit_start()
    if fitted is None:
      return state
    self._start = None
    exported = fitting.put(state.params, fitted.exported)
    if fitted.trained is not None:
      params = fitting.put(state.params, fitted.trained)
    else:
      params = self._to_train_on(state, exported, fitted.exported.fresh)
    before = state.objective_state
    for name, leaf in fitted.state.items():
      leaf = jax.device_put(
        leaf.astype(before[name].dtype), before[name].sharding
      )
      before = {**before, name: leaf}
    objective_state = jax.jit(
      parts.objective.after_load,
      out_shardings=jax.tree.map(
        lambda leaf: leaf.sharding, parts.abstract_state.objective_state
      ),
    )(before, exported)
    # Copies: the step donates its state, which must not hold a buffer twice.
    average, objective_state = jax.tree.map(
      lambda x: x.copy(), (state.ema_params and params, objective_state)
    )
    return state.replace(
      params=params, ema_params=average, objective_state=objective_state
    )

  def _to_train_on(
    self, state: Any, exported: Any, fresh: Collection[str]
  ) -> Any:
    """The parameters of a file as they are trained, but for fresh ones."""
    objective = self._parts.objective
    converted = objective.from_exported(exported, state.objective_state)
    return trees.map_named(
      lambda name, leaf, new: (
        new if name in fresh else jax.device_put(leaf, new.sharding)
      ),
      converted,
      state.params,
    )

  def save(
    self,
    step: int,
    state: Any,
    position: Position,
    *,
    evaluation_due: bool = False,
  ) -> None:
    """Starts a checkpoint, once the one before is written.

    Args:
      step: Number of updates done.
      state: State after these updates.
      position: Position of the next batch.
      evaluation_due: Leaves an evaluation of this step for the next start.

    Raises:
      UserError: Another job has taken the directory over, or a save failed and
        `config.checkpoint.on_save_error` does not say to continue.
    """
    self.check()
    with self._alarm():
      self.store.wait()
    self._unsaved = None
    if self._spool:
      self._spool.upload()  # Lines up to a step come before its checkpoint.
    metadata = self._metadata()
    metadata |= position.metadata() | {"evaluation_due": evaluation_due}
    with self._alarm():
      self.store.save(step, state, metadata)
    self._step = step
    self._seen = step, position.first_example
    if self._goodput:
      self._goodput.mark(step, is_saved=True)

  def _metadata(self) -> dict[str, Any]:
    return resume.metadata(
      self._parts.config,
      fingerprint=self._parts.facts.fingerprint,
      versions=versions.installed(),
      constants=self._parts.objective.constants.digests,
    )

  @property
  def has_lines(self) -> bool:
    """True if this start has written a line of metrics."""
    return self._has_lines

  @property
  def is_ours(self) -> bool:
    """True on the process that writes the records, unless a job took over."""
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
    """Reports a failed save, and ends the run unless the config continues."""
    try:
      yield
    except SaveError as error:
      self._unsaved = error
      self._tell(error)
      going_on = self._parts.config.checkpoint.on_save_error == "continue"
      if not going_on or jax.process_count() > 1:
        raise self._ending(error) from error

  def _ending(self, error: SaveError) -> UserError:
    """The error that ends the run; a restart may mend the network."""
    is_lost = jax.process_count() > 1 and liveness.is_of_network(
      error.__cause__
    )
    sentence = self._sentence(error)
    if is_lost:
      return LostError(sentence)
    return UserError(f"{sentence} Mend that and start the same command again.")

  def _tell(self, error: SaveError) -> None:
    _logger.error("ALARM: %s", self._sentence(error))

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
    """Keeps, from time to time, the seconds of this start up to `step`."""
    if self._goodput:
      self._goodput.mark(step)

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    """A line of metrics.jsonl (first process only)."""
    self._values.update(metrics)
    self._step, self._has_lines = step, True
    if self._metrics:
      self._metrics.write(step, metrics)
    self.mark(step)
    if self._trackers:
      self._trackers.write(step, metrics)

  def write_summary(self, status: str) -> None:
    """summary.json: the last value of every metric, timings and versions.

    Args:
      status: 'running', 'finished', 'preempted', 'interrupted', 'diverged' or
        'failed'.
    """
    if not self._is_first:
      return
    parts = self._parts
    values = {k: v for k, v in self._values.items() if k != "step"}
    best = self.best_checkpoint.best
    account = self._goodput.summary()
    counted, images_seen = self._seen
    images_seen += (self._step - counted) * parts.config.train.batch_size
    price = parts.config.log.price_per_device_hour
    records.write_json(
      self.records_path / "summary.json",
      {
        "step": self._step,
        "total_steps": parts.total_steps,
        "status": status,
        "metrics": values,
        "timings": self._clock.summary(),
        "goodput": account,
        "estimated_cost": price and price * account["device_hours"],
        "lines_are_means": True,
        "flops_per_step": parts.flops_per_step,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "num_examples": parts.facts.num_examples,
        "images_seen": images_seen,
        **run_facts.facts(parts.config, parts.abstract_state.params),
        "best": best and dataclasses.asdict(best),
        **self.facts,
      },
    )

  def finish(self, status: str) -> None:
    """Waits for the last checkpoint, then says in the summary how it ended.

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
          self._tell(error)
      if self._unsaved:
        problem = self._ending(self._unsaved)
      if self._metrics:
        self._metrics.close()
        self._goodput.close()
      status = "failed" if problem else status
      # A mistake in the command of a run that has ended changes nothing.
      if status != "failed" or self._has_lines or not self._has_ended():
        self.write_summary(status)
      self._finish_trackers(status)
      if self._spool:
        self._spool.close()
    except OSError as error:
      problem = problem or UserError(
        f"The records of {self.path} cannot be written"
        f" ({error.strerror or error}); mend that and start the run again."
      )
      self._finish_trackers("failed")
    finally:
      self.release()
    if problem:
      raise problem

  def _has_ended(self) -> bool:
    """True if the records say that the run finished in an earlier start."""
    summary = records.read_json(self.records_path / "summary.json")
    return summary.get("status") == "finished"

  def _abandon(self) -> None:
    """Leaves the records to the job that has taken the directory over."""
    with contextlib.suppress(SaveError):
      self.store.close()
    if self._metrics:
      self._metrics.close()
    self._finish_trackers("failed")
    if self._spool:
      self._spool.abandon()
    self.release()

  def _finish_trackers(self, status: str) -> None:
    """Ends the trackers, which come after all that a restart needs."""
    if self._trackers:
      self._trackers.finish(status)
      self._trackers = None

  def release(self) -> None:
    """Lets another job use the directory."""
    if self._lock:
      self._lock.release()

  def __enter__(self) -> "RunDirectory":
    return self

  def __exit__(self, kind: type | None, *unused: object) -> None:
    """A run that an error ends is left with its saves finished and named."""
    if kind is not None and not self._is_ending:
      diverged = issubclass(kind, DivergedError)
      with contextlib.suppress(UserError):  # Already logged.
        self.finish("diverged" if diverged else "failed")


def _kept_to_go_back(parts: Run) -> tuple[int, int] | None:
  """The saves that `config.faults` may ask for, as of `CheckpointStore`."""
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
      probe.write_bytes(bytes(4096))  # A full disk takes empty files.
      probe.unlink(missing_ok=True)  # Another job may be looking too.
  except OSError as error:
    raise UserError(
      f"The workdir {path} cannot be written to"
      f" ({error.strerror or error}); choose another --workdir."
    ) from None


def _lock(path: epath.Path) -> WorkdirLock | None:
  """The first process holds the directory for all.

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
