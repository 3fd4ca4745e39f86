"""Means of the training metrics between two lines."""

import json

import pytest

from vit_jax.training.interval import IntervalMeans


def fed(steps, sums=None):
  """Means that took `steps`, values of 'loss' and 'learning_rate'."""
  means = IntervalMeans(sums or {}, latest={"learning_rate"})
  for loss, rate in steps:
    means.add({"loss": loss, "learning_rate": rate}, finite=True)
  return means


def test_metrics_are_averaged_and_schedules_have_their_last_value():
  means = fed([(4.0, 0.1), (1.0, 0.2), (1.0, 0.3)])
  assert means.take() == {"loss": 2.0, "learning_rate": 0.3}


def test_an_interval_begins_anew():
  means = fed([(4.0, 0.1)])
  means.take()
  assert means.sums() == {}
  means.add({"loss": 1.0, "learning_rate": 0.2}, finite=True)
  assert means.take()["loss"] == 1.0


def test_steps_that_are_not_finite_are_left_out():
  means = fed([(4.0, 0.1)])
  means.add({"loss": float("nan"), "learning_rate": 0.2}, finite=False)
  assert means.take() == {"loss": 4.0, "learning_rate": 0.2}


def test_where_no_step_is_finite_the_last_one_shows_it():
  means = fed([])
  means.add({"loss": float("inf"), "learning_rate": 0.2}, finite=False)
  assert means.take() == {"loss": float("inf"), "learning_rate": 0.2}


def test_what_json_keeps_of_half_an_interval_gives_the_same_mean():
  steps = [(1 / 3, 0.1), (1 / 7, 0.2), (1 / 11, 0.3), (1e-9, 0.4)]
  kept = json.loads(json.dumps(fed(steps[:2]).sums()))
  assert fed(steps[2:], kept).take() == fed(steps).take()
  assert fed(steps).take()["loss"] == pytest.approx(
    sum(x for x, _ in steps) / 4
  )
