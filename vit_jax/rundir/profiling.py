"""Traces of a few steps, requested by config or a signal to the job.

A trace goes to `profiles/STEP/` of the workdir. Its `perfetto_trace.json.gz`
opens at ui.perfetto.dev; TensorBoard's profile plugin reads the whole trace.
"""

import logging
import signal
import tempfile
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax
from etils import epath

from vit_jax import buckets
from vit_jax.config import schema

DIRECTORY = "profiles"
_logger = logging.getLogger(__name__)

Step = Callable[[Any, Any], tuple[Any, Any]]


class Profiler:
  """Traces steps of a run; SIGUSR1 requests the next ones.

  Args:
    config: Section that names the steps to trace without a signal.
    workdir: Directory of the run.
  """

  def __init__(self, config: schema.Profile, workdir: epath.Path):
    self._config = config
    self._directory = workdir / DIRECTORY
    self._is_asked = False
    self._left = 0  # Remaining steps of the current trace.
    self._traced = self._written = epath.Path()
    self._previous: Any = None

  def __enter__(self) -> "Profiler":
    self._previous = signal.signal(signal.SIGUSR1, self._ask)
    return self

  def __exit__(self, *unused: object) -> None:
    signal.signal(signal.SIGUSR1, self._previous)
    if self._left:
      self._stop()

  def _ask(self, signum: int, frame: FrameType | None) -> None:
    del signum, frame
    self._is_asked = True

  def watched(self, train_step: Step, first_step: int) -> Step:
    """Wraps `train_step` to trace it when due.

    Its first update is `first_step + 1`.
    """
    step = first_step

    def run(state: Any, batch: Any) -> tuple[Any, Any]:
      nonlocal step
      step += 1
      if self._is_asked or step == self._config.first_step:
        self._start(step)
      if not self._left:
        return train_step(state, batch)
      with jax.profiler.StepTraceAnnotation("train", step_num=step):
        state, metrics = train_step(state, batch)
      self._left -= 1
      if not self._left:
        jax.block_until_ready(metrics)  # Includes the devices' part.
        self._stop()
      return state, metrics

    return run

  def _start(self, step: int) -> None:
    self._is_asked = False
    if self._left:
      return
    self._traced = self._written = path = self._directory / str(step)
    try:
      if buckets.is_bucket(path):
        self._written = epath.Path(tempfile.mkdtemp(prefix="vit_jax-trace-"))
      self._written.mkdir(parents=True, exist_ok=True)
      jax.profiler.start_trace(self._written, create_perfetto_trace=True)
    except (OSError, RuntimeError) as error:  # The run must go on.
      _logger.error("No trace of step %d: %s.", step, error)
      return
    self._left = self._config.num_steps
    _logger.info("Tracing %d steps from %d to %s.", self._left, step, path)

  def _stop(self) -> None:
    self._left = 0
    try:
      jax.profiler.stop_trace()
      if self._written != self._traced:
        buckets.upload_all(self._written, self._traced)
        self._written.rmtree()
    except (OSError, RuntimeError) as error:
      _logger.error("The trace could not be written: %s.", error)
