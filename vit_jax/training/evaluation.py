"""Runs the evaluators of a config when they are due."""

from vit_jax.durations import EverySteps
from vit_jax.evaluators import build as evaluators_build
from vit_jax.evaluators.contract import Context
from vit_jax.training.experiment import Experiment
from vit_jax.training.monitor import Monitor
from vit_jax.training.run_directory import RunDirectory
from vit_jax.training.state import TrainState
from vit_jax.training.timing import Clock


class Evaluation:
  """The evaluators of `config.evals`, each on its own schedule.

  Raises:
    UserError: if the data of one of them is not there.
  """

  def __init__(
    self,
    parts: Experiment,
    directory: RunDirectory,
    monitor: Monitor,
    clock: Clock,
  ):
    self._monitor = monitor
    self._clock = clock
    context = Context(
      config=parts.config,
      outputs=parts.objective.outputs,
      mesh=parts.mesh,
      workdir=directory.path,
      num_classes=parts.facts.num_classes,
      class_names=parts.facts.class_names,
    )
    self._scheduled = [
      (
        EverySteps(parts.steps(entry.every_steps), parts.total_steps),
        evaluators_build.build(name, entry, context),
      )
      for name, entry in parts.config.evals.items()
    ]

  def due(self, step: int) -> bool:
    return any(every.due(step) for every, _ in self._scheduled)

  def run(self, step: int, state: TrainState) -> None:
    """Runs what is due; the metrics make one line of the records."""
    metrics: dict[str, float] = {}
    with self._clock.phase("evaluate"):
      for every, evaluator in self._scheduled:
        if every.due(step):
          metrics |= evaluator.run(state, step)
    if metrics:
      self._monitor.write(step, metrics)
      shown = [
        f"{name.removeprefix('eval/')} {value:.4g}"
        for name, value in metrics.items()
        if not name.endswith(("_std", "/num_examples"))
      ]
      self._monitor.say(f"evaluation at step {step}: " + "  ".join(shown))
