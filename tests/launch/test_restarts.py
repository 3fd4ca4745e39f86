"""When a run is started again, and when no more."""

import itertools

import pytest

from launch import restarts


def repeated(codes, *, seconds=1, asked=(), **options):
  """The code that came of attempts which end so, and how many there were.

  `asked`: attempts during which somebody asked for the end.
  """
  made = []
  clock = iter(itertools.count(step=seconds))

  def attempt():
    made.append(codes[len(made)])
    return made[-1]

  options = {"max_restarts": 3, "restart_preempted": True} | options
  code = restarts.repeat(
    attempt,
    asked_to_stop=lambda: len(made) in asked,
    say=lambda text: None,
    now=lambda: next(clock),
    **options,
  )
  return code, len(made)


@pytest.mark.parametrize("end", [0, 1, 130])
def test_it_goes_on_until_it_finishes_or_must_stop(end):
  assert repeated([42, 134, 137, end]) == (end, 4)


def test_a_run_that_keeps_failing_is_given_up():
  assert repeated([134] * 9) == (134, 4)
  assert repeated([134] * 9, max_restarts=0) == (134, 1)


def test_after_an_hours_run_failures_are_counted_anew():
  codes = [134] * 50 + [0]
  assert repeated(codes, seconds=restarts.GOOD_SECONDS) == (0, 51)


def test_a_preempted_run_may_be_left_to_others():
  assert repeated([137, 42, 0], restart_preempted=False) == (42, 2)


def test_nothing_starts_after_a_request_to_stop():
  assert repeated([42, 0], asked=[1]) == (42, 1)
  assert repeated([134, 137, 0], asked=[2]) == (137, 2)
