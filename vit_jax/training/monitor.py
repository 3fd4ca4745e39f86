"""Looks at every step's metrics: writes them when due, stops on NaN."""

import functools
import sys
from collections.abc import Mapping
from typing import Any

import jax

from vit_jax import rngs
from vit_jax.errors import DivergedError
from vit_jax.training import finite
from vit_jax.training.experiment import Experiment
from vit_jax.training.progress import Progress
from vit_jax.training.run_directory import RunDirectory
from vit_jax.training.state import TrainState
from vit_jax.training.tensorboard import TensorBoard
from vit_jax.training.timing import Clock, Throughput


class Monitor:
  """Where numbers of a run go: metrics.jsonl, TensorBoard and the terminal.

  Args:
    parts: the experiment.
    directory: of the run.
    clock: of the run.
    quiet: says nothing on the terminal.
  """

  def __init__(
    self,
    parts: Experiment,
    directory: RunDirectory,
    clock: Clock,
    *,
    quiet: bool = False,
  ):
    self._parts = parts
    self._directory = directory
    self._clock = clock
    self._is_first = jax.process_index() == 0
    self._board = TensorBoard(directory.path) if self._is_first else None
    speaks = self._is_first and not quiet
    self._progress = Progress(parts.total_steps, sys.stdout if speaks else None)
    self._throughput: Throughput | None = None
    self._last_step = directory.first_step

  def start(self) -> None:
    """Begins to measure throughput."""
    device = jax.devices()[0]
    self._throughput = Throughput(
      self._clock,
      batch_size=self._parts.config.train.batch_size,
      flops_per_step=self._parts.flops_per_step,
      device_kind=device.device_kind,
      num_devices=jax.device_count(),
    )

  def say(self, text: str) -> None:
    self._progress.say(text)

  def log(
    self,
    step: int,
    metrics: Mapping[str, Any],
    batch: Mapping[str, Any],
    state: TrainState,
  ) -> None:
    """Takes the metrics of `step`; writes them if it is time.

    Args:
      step: updates done when they were measured.
      metrics: of the train step, on the device.
      batch: that they were measured on.
      state: the newest.

    Raises:
      DivergedError: loss or gradient were not finite; names the first bad
        tensor.
    """
    values = jax.device_get(dict(metrics))
    if not values.pop("finite"):
      raise DivergedError(self._explain(step, values, batch, state))
    del values["grad_finite"]
    if step % self._parts.config.log_every_steps and step > 1:
      return
    steps, self._last_step = step - self._last_step, step
    line = {f"train/{name}": float(value) for name, value in values.items()}
    line |= self._throughput.since_last(steps)
    self.write(step, line)
    rate = line["perf/images_per_second"]
    self._progress.step(step, line, self._parts.config.train.batch_size / rate)

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    """A line in the records and points in TensorBoard."""
    self._directory.write(step, metrics)
    if self._board:
      self._board.write(step, metrics)

  def close(self) -> None:
    if self._board:
      self._board.close()

  def _explain(
    self,
    step: int,
    values: Mapping[str, Any],
    batch: Mapping[str, Any],
    state: TrainState,
  ) -> str:
    seed = self._parts.config.seed
    bad = finite.first_bad_tensor(
      self._parts.objective,
      state.params,
      state.objective_state,
      batch,
      functools.partial(rngs.stream, seed, step=step - 1),
      step - 1,
      values["grad_finite"],
    )
    saved = self._directory.store.latest_step()
    kept = (
      f"The checkpoint of step {saved} is untouched."
      if saved is not None
      else "No checkpoint had been saved yet."
    )
    return (
      f"Training stopped at step {step}: loss {values['loss']:g}, gradient"
      f" norm {values['grad_norm']:g}. The first tensor that is not finite is"
      f" {bad}. {kept} Lower config.schedule.base_lr, lengthen"
      " config.schedule.warmup_steps, or set config.optimizer.grad_clip_norm."
    )
