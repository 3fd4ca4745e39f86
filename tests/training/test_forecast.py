"""The time that a run still needs."""

import pytest

from tests import experiments
from vit_jax.training.forecast import Forecast


class Evaluator:
  def run(self, state, step):
    raise NotImplementedError


def evaluator(num_examples):
  known = Evaluator()
  known.num_examples = num_examples
  return known


def forecast(**changes):
  """A run of 12 steps of 16 images, evaluated at 4, 8 and 12."""
  return Forecast(
    experiments.build(total_steps=12, evals__test__every_steps=4, **changes)
  )


def test_without_evaluators_the_steps_are_all_that_is_left():
  alone = Forecast(experiments.build(total_steps=12, evals={}))
  assert alone.seconds_left(2, 0.5) == pytest.approx(5)


def test_first_evaluation_lasts_as_long_as_its_forward_passes():
  run = forecast()
  run.expect({"test": evaluator(48)})
  # Three batches of forward passes are one step, at 4, 8 and 12.
  assert run.seconds_left(0, 0.5) == pytest.approx(12 * 0.5 + 3 * 0.5)
  assert run.seconds_left(8, 0.5) == pytest.approx(4 * 0.5 + 0.5)


def test_later_ones_last_as_long_as_the_last_one_measured():
  run = forecast()
  run.expect({"test": evaluator(48)})
  run.measured("test", 20)
  run.measured("test", 10)
  assert run.seconds_left(4, 0.5) == pytest.approx(8 * 0.5 + 2 * 10)
  assert run.evaluations_left(4) == 2


def test_an_evaluator_that_does_not_tell_its_images_counts_once_measured():
  run = forecast()
  run.expect({"test": Evaluator()})
  assert run.seconds_left(0, 1.0) == pytest.approx(12)
  run.measured("test", 5)
  assert run.seconds_left(0, 1.0) == pytest.approx(12 + 3 * 5)
