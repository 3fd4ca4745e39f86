"""Evaluation during training."""

import contextlib
import time
from collections.abc import Callable, Iterator

from etils import epath

from vit_jax.config import schema
from vit_jax.data import facts
from vit_jax.errors import UserError
from vit_jax.evaluators import build as evaluators_build
from vit_jax.evaluators.contract import Context, Evaluator
from vit_jax.processes.stopping import StopRequest
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.training.experiment import Experiment
from vit_jax.training.monitor import Monitor
from vit_jax.training.state import TrainState


def build_evaluators(
  parts: Experiment,
  workdir: epath.Path | None = None,
  *,
  heartbeat: Callable[[], None] = lambda: None,
) -> dict[str, Evaluator]:
  """Builds the evaluators of `config.evals` and opens their data.

  Args:
    parts: Parts of the experiment.
    workdir, heartbeat: As for `Context`.

  Raises:
    UserError: The data of an evaluator are missing or do not fit the model.
  """
  context = Context(
    config=parts.config,
    outputs=parts.objective.outputs,
    mesh=parts.mesh,
    workdir=workdir,
    num_classes=parts.facts.num_classes,
    class_names=parts.facts.class_names,
    heartbeat=heartbeat,
  )
  return {
    name: evaluators_build.build(name, entry, context)
    for name, entry in parts.config.evals.items()
  }


@contextlib.contextmanager
def errors_explained(config: schema.Config) -> Iterator[None]:
  """Adds instructions for training without evaluators to their errors.

  A user's images for training without labels rarely have the labels that the
  config's evaluators need.
  """
  try:
    yield
  except UserError as error:
    if facts.learns_labels(config):
      raise
    raise UserError(
      f"{error}\nTo learn without evaluators, add --config.evals={{}}."
    ) from None


class _CutShortError(Exception):
  """An evaluation was interrupted by a request to stop."""


class Evaluation:
  """The evaluators of `config.evals`, each on its own schedule.

  They see the parameters that the objective exports.

  Attributes:
    evaluators: The evaluators by name.
    unfinished: True if an evaluation of the last step is left to the next start
      because the run was asked to stop.
    best_step: Step of the last evaluation, if it was the best.

  Raises:
    UserError: The data of an evaluator are missing.
  """

  def __init__(
    self,
    parts: Experiment,
    directory: RunDirectory,
    monitor: Monitor,
    request: StopRequest,
    clock: Clock,
  ):
    self.unfinished = False
    self.best_step: int | None = None
    self._directory = directory
    self._monitor = monitor
    self._request = request
    self._clock = clock
    self._evaluated = parts.evaluated
    with errors_explained(parts.config):
      self.evaluators = build_evaluators(
        parts, directory.records_path, heartbeat=self._ask
      )
    self._scheduled = [
      (parts.every(entry.every_steps), name, self.evaluators[name])
      for name, entry in parts.config.evals.items()
    ]
    monitor.forecast.expect(self.evaluators)

  def due(self, step: int) -> bool:
    return any(every.due(step) for every, _, _ in self._scheduled)

  def catch_up(self, state: TrainState) -> None:
    """Runs the evaluation that the previous start left unfinished."""
    if self._directory.evaluation_due:
      self.run(self._directory.first_step, state)

  def run(self, step: int, state: TrainState) -> None:
    """Runs the evaluators that are due; writes one line of metrics.

    If the run is asked to stop, nothing of the evaluation is recorded.
    """
    metrics: dict[str, float] = {}
    self.unfinished = self.due(step)
    if not self.unfinished or self._request.given:
      return
    with self._clock.phase("evaluate"), contextlib.suppress(_CutShortError):
      seen = state.replace(params=self._evaluated(state), ema_params=None)
      for every, name, evaluator in self._scheduled:
        if every.due(step):
          start = time.monotonic()
          metrics |= evaluator.run(seen, step)
          self._monitor.forecast.measured(name, time.monotonic() - start)
      self.unfinished = False
    if self.unfinished:
      return
    if metrics:
      self._monitor.write(step, metrics)
      is_best = self._directory.best_checkpoint.evaluated(step, metrics)
      self.best_step = step if is_best else None
      shown = [
        f"{name.removeprefix('eval/')} {value:.4g}"
        for name, value in metrics.items()
        if not name.endswith(("_std", "/num_examples"))
        # Of several numbers, the line shows only their mean.
        and not (name.startswith("eval/") and name.count("/") > 2)
      ]
      self._monitor.say(f"evaluation at step {step}:", shown)

  def _ask(self) -> None:
    if self._request.asked():
      raise _CutShortError
