"""Checks the metrics of every step and writes them when due."""

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

from vit_jax.objectives import build as objectives_build
from vit_jax.processes.slow_hosts import SlowHosts
from vit_jax.rundir.progress import Progress
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.tensorboard import TensorBoard
from vit_jax.rundir.timing import Clock, Throughput
from vit_jax.training.data_stream import DataStream
from vit_jax.training.experiment import Experiment
from vit_jax.training.forecast import Forecast
from vit_jax.training.interval import IntervalMeans
from vit_jax.training.recovery import Recovery
from vit_jax.training.state import TrainState

_logger = logging.getLogger(__name__)
# Recurring problems are not reported every time.
_MAX_WARNINGS = 5

Step = Callable[[TrainState, Any], tuple[TrainState, Any]]


class Monitor:
  """Writer of a run's numbers: metrics.jsonl, TensorBoard and the terminal.

  Args:
    parts: Parts of the experiment.
    directory: Directory of the run.
    data_stream: Stream of its batches.
    recovery: Recovery that handles non-finite numbers.
    clock: Clock of the run.
    quiet: Suppresses output on the terminal.

  Attributes:
    forecast: Forecast of the remaining time of the run.
  """

  def __init__(
    self,
    parts: Experiment,
    directory: RunDirectory,
    data_stream: DataStream,
    recovery: Recovery,
    clock: Clock,
    *,
    quiet: bool = False,
  ):
    self._parts = parts
    self._directory = directory
    self._data_stream = data_stream
    self._recovery = recovery
    self._clock = clock
    self._is_first = jax.process_index() == 0
    self._board = None
    if self._is_first:
      self._board = TensorBoard(directory.records_path)
    speaks = self._is_first and not quiet
    self._progress = Progress(parts.total_steps, sys.stdout if speaks else None)
    self.forecast = Forecast(parts)
    self._throughput: Throughput | None = None
    self._hosts = SlowHosts()
    self._means = IntervalMeans({}, latest=parts.scalars)
    self._last_step = 0
    self._has_learned = False
    self._is_doubted, self._num_warnings = False, 0

  def start(self) -> None:
    """Starts measuring at the current step of the run."""
    self._last_step = self._directory.first_step
    self._means = IntervalMeans(
      self._directory.position.unlogged, latest=self._parts.scalars
    )
    device = jax.devices()[0]
    self._throughput = Throughput(
      self._clock,
      batch_size=self._parts.config.train.batch_size,
      flops_per_step=self._parts.flops_per_step,
      device_kind=device.device_kind,
      num_devices=jax.device_count(),
    )

  def timed(self, train_step: Step) -> Step:
    """Wraps `train_step` to note when its dispatch returns."""

    def run(state: TrainState, batch: Any) -> tuple[TrainState, Any]:
      result = train_step(state, batch)
      self._throughput.dispatched()
      return result

    return run

  def say(self, text: str, items: Iterable[str] = ()) -> None:
    self._progress.say(text, items)

  def log(
    self,
    step: int,
    metrics: Mapping[str, Any],
    batch: Mapping[str, Any],
    state: TrainState,
  ) -> None:
    """Records the metrics of `step`; if due, writes those since the last line.

    A line contains the means over these steps and the last values of the
    schedules. The first and last step of the run are always written.

    Args:
      step: Number of updates when the metrics were measured.
      metrics: Metrics of the train step, on the device.
      batch: Batch on which they were measured.
      state: Latest state.

    Raises:
      DivergedError: Numbers were not finite, and the run must end.
    """
    self._directory.check()
    waited = not metrics["finite"].is_ready()
    values = jax.device_get(dict(metrics))
    self._throughput.ended(waited=waited)
    finite = bool(values["finite"])
    if not finite:
      self._recovery.not_finite(step, values, batch, state)
    if values["spike"]:
      self._recovery.spike(step, values)
    had_learned = self._has_learned
    self._has_learned |= bool(values["learning_rate"] > 0)
    del values["finite"], values["spike"], values["grad_finite"]
    self._means.add(
      {name: float(value) for name, value in values.items()}, finite=finite
    )
    self._progress.tick(step)
    self._directory.mark(step)
    due = step % self._parts.config.log_every_steps == 0
    if not due and step not in (1, self._parts.total_steps):
      return
    steps, self._last_step = step - self._last_step, step
    values = self._means.take()
    if had_learned:  # Otherwise the network is still the initial one.
      self._warn(step, values)
    line = {f"train/{name}": value for name, value in values.items()}
    line |= self._throughput.since_last(steps)
    step_seconds = (
      self._parts.config.train.batch_size / line["perf/images_per_second"]
    )
    line |= self._hosts.compare(
      step_seconds, step_seconds * line["perf/data_wait_fraction"]
    )
    if self._hosts.slowest:
      self._directory.facts["slowest_host"] = self._hosts.slowest
    line |= self._data_stream.metrics(step)
    self.write(step, line)
    left = self.forecast.seconds_left(step, step_seconds)
    self._progress.step(step, line, seconds_left=left)

  def unlogged(self) -> dict[str, float]:
    """Returns sums of the metrics since the last line, for the checkpoint."""
    return self._means.sums()

  def _warn(self, step: int, values: Mapping[str, float]) -> None:
    """Reports new problems that the objective finds in its metrics."""
    config = self._parts.config
    found = objectives_build.kind_of(config).warning(config, values)
    if found and not self._is_doubted and self._num_warnings < _MAX_WARNINGS:
      self._num_warnings += 1
      if self._is_first:
        _logger.warning("Step %d: %s", step, found)
    self._is_doubted = bool(found)

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    """Writes a line to the records, and scalars to TensorBoard."""
    self._directory.write(step, metrics)
    if self._board:
      self._board.write(step, metrics)

  def close(self) -> None:
    if self._board:
      self._board.close()
