"""Forecast of the remaining time of a run."""

from collections.abc import Mapping

from vit_jax.evaluators.contract import Evaluator
from vit_jax.training.experiment import Experiment


class Forecast:
  """Time for the remaining steps and evaluations.

  An evaluation is assumed to last as long as the previous one. The first one is
  assumed to last as long as forward passes over its images, each a third of a
  train step's time per image.

  Args:
    parts: Parts of the experiment.
  """

  def __init__(self, parts: Experiment):
    self._total_steps = parts.total_steps
    self._batch_size = parts.config.train.batch_size
    self._schedules = {
      name: parts.every(entry.every_steps)
      for name, entry in parts.config.evals.items()
    }
    self._images: dict[str, int] = {}
    self._measured: dict[str, float | int] = {}

  def expect(self, evaluators: Mapping[str, Evaluator]) -> None:
    """Records the numbers of images of evaluators that know theirs."""
    for name, evaluator in evaluators.items():
      self._images[name] = getattr(evaluator, "num_examples", None) or 0

  def measured(self, name: str, seconds: float | int) -> None:
    """Records the duration of an evaluation."""
    self._measured[name] = seconds

  def evaluations_left(self, step: int) -> int:
    """Returns the number of evaluations after `step`."""
    return sum(
      every.count(step, self._total_steps) for every in self._schedules.values()
    )

  def seconds_left(self, step: int, step_seconds: float | int) -> float | int:
    """Returns the seconds left after `step`, at `step_seconds` per step."""
    seconds = (self._total_steps - step) * step_seconds
    for name, every in self._schedules.items():
      guess = self._images.get(name, 0) * step_seconds / self._batch_size / 3
      seconds += every.count(step, self._total_steps) * self._measured.get(
        name, guess
      )
    return seconds
