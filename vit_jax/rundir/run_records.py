"""The records of a run: metrics, time accounting, trackers and summary."""

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from etils import epath

from vit_jax import buckets, records
from vit_jax.config import (
  best_metric,
  evaluator_declarations,
  resolve,
  schema,
)
from vit_jax.errors import UserError
from vit_jax.pretrained import run_files
from vit_jax.rundir import goodput, run_facts
from vit_jax.rundir.bucket_upload import BucketUpload
from vit_jax.rundir.contract import Run
from vit_jax.rundir.position import Position
from vit_jax.rundir.timing import Clock
from vit_jax.rundir.trackers import memory
from vit_jax.rundir.trackers.contract import RunInfo
from vit_jax.rundir.trackers.run_trackers import RunTrackers

_logger = logging.getLogger(__name__)
_METRICS = "metrics.jsonl"
_SUMMARY = "summary.json"
# Records that a run without its checkpoints would replace. The last one says
# that there were checkpoints.
_KEPT = (
  _METRICS,
  _SUMMARY,
  run_files.CONFIG,
  run_files.CLASSES,
  goodput.FILE,
)
# Directories of them, which are not fetched from a bucket.
_KEPT_DIRECTORIES = ("evaluations", run_files.TOKENIZER)
# Facts of training in the summary of a run that has finished.
_OF_TRAINING = ("total_steps", "flops_per_step", "num_examples")


class RunRecords:
  """The files that the first process writes in addition to checkpoints.

  Attributes:
    path: Directory of the records: the workdir or, if that is in a bucket, a
      local directory that is copied to it.
    metrics_path: Path of the lines of metrics.
    has_lines: True if this start has written a line of metrics.

  Args:
    workdir: Existing directory of the run.
    parts: Parts of the experiment.
    clock: Clock whose phases appear in the summary.
    first_step: Step that the run resumes from; lines after it are dropped. If
      it is 0 although an earlier start has saved, its records are renamed.
    position: Position in the data at that step.

  Raises:
    UserError: The records of an earlier start cannot be fetched.
  """

  def __init__(
    self,
    workdir: epath.Path,
    parts: Run,
    clock: Clock,
    first_step: int,
    position: Position,
  ):
    self._workdir, self._parts, self._clock = workdir, parts, clock
    self._config = parts.config
    self._as_trained: dict[str, Any] = {}
    self.has_lines = False
    self._trackers: RunTrackers | None = None
    try:
      self._spool = BucketUpload(workdir, fetch=[*_KEPT, memory.FILE])
    except OSError as error:
      raise UserError(
        f"The records of {workdir} cannot be fetched"
        f" ({error.strerror or error}); fix that and start the run again."
      ) from error
    self.path = self._spool.path
    self.metrics_path = self.path / _METRICS
    try:
      if first_step == 0 and goodput.has_saved(self.path):
        self._keep_earlier()
      self._goodput = goodput.Goodput(
        self.path, clock, first_step, jax.device_count()
      )
      self._open_metrics(first_step, position.first_example)
    except BaseException:
      self.abort()
      raise

  def describe(self, config: schema.Config, *, is_over: bool) -> None:
    """Writes files that describe the run to readers of the directory.

    Args:
      config: Config that describes the run: that of this start, or that which
        the run was trained with if nothing is left to train.
      is_over: True if nothing is left to train.
    """
    self._config = config
    if is_over:
      self._as_trained = self._facts_of_training()
    facts = self._parts.facts
    run_files.write_config(self.path, config)
    records.write_json(
      self.path / evaluator_declarations.FILE,
      evaluator_declarations.declarations(config),
    )
    run_files.write_class_names(self.path, facts.class_names)
    if facts.tokenizer is not None and not is_over:
      run_files.write_tokenizer(self.path, facts.tokenizer)

  def _facts_of_training(self) -> dict[str, Any]:
    """Returns facts of a finished run, which no later start changes."""
    summary = records.read_json(self.path / _SUMMARY)
    if summary.get("status") != "finished":
      return {}
    return {key: summary[key] for key in _OF_TRAINING if key in summary}

  def _open_metrics(self, step: int, seen: int) -> None:
    self._metrics = records.MetricsFile(self.metrics_path, last_step=step)
    self._step, self._values = step, {}
    # A step and the number of images in batches up to it.
    self._seen = step, seen
    for line in records.read_lines(self.metrics_path):
      self._values.update(line)

  def _keep_earlier(self) -> None:
    """Renames what a start has left whose checkpoints are gone."""
    now = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
    kept = []
    try:
      move = buckets.move if buckets.is_bucket(self._workdir) else os.rename
      for path in (self._workdir / name for name in _KEPT_DIRECTORIES):
        if path.is_dir():
          kept.append(f"{path.name}-before-{now}")
          move(path, self._workdir / kept[-1])
      for path in (self.path / name for name in _KEPT):
        if path.exists():
          kept.append(f"{path.stem}-before-{now}{path.suffix}")
          path.rename(self.path / kept[-1])
    except OSError as error:
      raise UserError(
        f"The records of an earlier start in {self._workdir} cannot be renamed"
        f" ({error.strerror or error}); fix that and start the run again."
      ) from error
    if kept:
      _logger.warning(
        "%s has records of an earlier start, but none of its checkpoints: this"
        " one begins at step 0. The earlier records are kept in %s; to resume"
        " the earlier run, stop, remove `checkpoints`, and move the earlier"
        " checkpoints and records back.",
        self._workdir,
        ", ".join(kept),
      )

  def has_evaluation(self, step: int) -> bool:
    """Returns True if a line has metrics of an evaluation at `step`."""
    prefixes = evaluator_declarations.prefixes(self._config)
    return self._metrics.has_any(step, prefixes)

  def track(self) -> None:
    """Starts sending the metrics to the trackers of `config.log.to`."""
    config = self._config
    if not config.log.to:
      return
    workdir = buckets.absolute(self._workdir)
    facts = run_facts.facts(config, self._parts.abstract_state.params)
    info = RunInfo(
      project=config.log.project,
      name=config.log.name or workdir.name,
      group=config.log.group,
      directory=pathlib.Path(self.path),
      config=json.loads(resolve.dump(config)),
      facts={"workdir": str(workdir), **facts},
    )
    earlier: Sequence[Any] = records.read_lines(self.metrics_path)
    self._trackers = RunTrackers(config.log.to, info, earlier)

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    """Writes a line of metrics."""
    self._values.update(metrics)
    self._step, self.has_lines = step, True
    self._metrics.write(step, metrics)
    self.mark(step)
    if self._trackers:
      self._trackers.write(step, metrics)

  def mark(self, step: int) -> None:
    """Periodically records the seconds of this start up to `step`."""
    self._goodput.mark(step)

  def upload(self) -> None:
    """Copies new content to the workdir, if that is in a bucket."""
    self._spool.upload()

  def saved(self, step: int, position: Position) -> None:
    """Records a step from which the run may resume."""
    self._step = step
    self._seen = step, position.first_example
    self._goodput.mark(step, is_saved=True)

  def went_back(self, step: int, seen: int) -> None:
    """Drops the lines after `step` and counts their seconds as lost.

    Args:
      step: Step from which the run resumes.
      seen: Number of images in all batches, with those of undone steps.
    """
    self._metrics.close()
    self._open_metrics(step, seen)
    self._goodput.went_back(step)

  def finish(
    self,
    status: str,
    best: best_metric.Best | None,
    facts: Mapping[str, Any],
  ) -> None:
    """Writes the summary and ends the trackers and the upload.

    The trackers end after everything that a restart needs is written. A mistake
    in a command for a finished run leaves its summary unchanged.

    Args:
      status: 'running', 'finished', 'preempted', 'interrupted', 'diverged' or
        'failed'.
      best: The best evaluation of the run, if it is tracked.
      facts: Further facts for the summary.

    Raises:
      OSError: The records cannot be written.
    """
    try:
      self._metrics.close()
      self._goodput.close()
      if status != "failed" or self.has_lines or not self._has_ended():
        self._write_summary(status, best, facts)
    except OSError:
      self.fail()
      raise
    self._finish_trackers(status)
    self._spool.close()

  def _has_ended(self) -> bool:
    """Returns True if the records say that an earlier start finished it."""
    return records.read_json(self.path / _SUMMARY).get("status") == "finished"

  def _write_summary(
    self,
    status: str,
    best: best_metric.Best | None,
    facts: Mapping[str, Any],
  ) -> None:
    """Writes the last value of every metric, timings and versions."""
    parts = self._parts
    account = self._goodput.summary()
    counted, images_seen = self._seen
    images_seen += (self._step - counted) * self._config.train.batch_size
    price = self._config.log.price_per_device_hour
    records.write_json(
      self.path / _SUMMARY,
      {
        "step": self._step,
        "total_steps": parts.total_steps,
        "status": status,
        "metrics": {k: v for k, v in self._values.items() if k != "step"},
        "timings": self._clock.summary(),
        "goodput": account,
        "estimated_cost": price and price * account["device_hours"],
        "lines_are_means": True,
        "flops_per_step": parts.flops_per_step,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "num_examples": parts.facts.num_examples,
        "images_seen": images_seen,
        **run_facts.facts(self._config, parts.abstract_state.params),
        "best": best and dataclasses.asdict(best),
        **facts,
        **self._as_trained,
      },
    )

  def abandon(self) -> None:
    """Leaves the records to the job that has taken over the directory."""
    self._metrics.close()
    self.fail()
    self._spool.abandon()

  def fail(self) -> None:
    """Tells the trackers that the run failed, unless they have ended."""
    self._finish_trackers("failed")

  def abort(self) -> None:
    """Copies the records of a start that fails before its first step."""
    with contextlib.suppress(OSError):
      self._spool.close()

  def _finish_trackers(self, status: str) -> None:
    if self._trackers:
      self._trackers.finish(status)
      self._trackers = None
