"""Lengths of training as values."""

import pytest

from vit_jax import durations
from vit_jax.durations import EverySteps


@pytest.mark.parametrize(
  ("value", "steps"),
  [
    (0, 0),
    (10_000, 10_000),
    ("1000 steps", 1000),
    ("1_000 steps", 1000),
    ("3 epochs", 300),
    ("1 epoch", 100),
    ("0.5 epochs", 50),
    ("640 examples", 10),
    ("1k examples", 16),
    ("10%", 100),
    ("12.5 %", 125),
    ("100%", 1000),
    ("6.4M examples", 100_000),
    # For ever: the longest run there can be.
    (10**400, 2**31 - 1),
    ("10G steps", 2**31 - 1),
    ("1e300 epochs", 2**31 - 1),
    ("1e307 epochs", 2**31 - 1),
  ],
)
def test_a_duration_counts_in_steps(value, steps):
  duration = durations.parse(value)
  counted = duration.to_steps(
    batch_size=64, num_examples=6400, total_steps=1000
  )
  assert counted == steps


@pytest.mark.parametrize(
  "value",
  [-1, "", "five epochs", "5", "5 parsecs", "-5 epochs", True, "1" * 9999],
)
def test_anything_else_is_refused_with_the_forms_that_work(value):
  with pytest.raises(ValueError, match="steps"):
    durations.parse(value)


def test_more_than_the_run_is_refused():
  with pytest.raises(ValueError, match="'101%' is more than the run"):
    durations.parse("101%")


def test_epochs_need_the_number_of_examples():
  with pytest.raises(ValueError, match="number of training examples"):
    durations.parse("2 epochs").to_steps(
      batch_size=1, num_examples=None, total_steps=10
    )


def test_every_steps_is_due_at_multiples_and_at_the_last_step():
  every = EverySteps(3, last_step=10)
  assert [s for s in range(11) if every.due(s)] == [3, 6, 9, 10]


def test_without_an_interval_only_the_last_step_is_due():
  every = EverySteps(None, last_step=10)
  assert [s for s in range(11) if every.due(s)] == [10]


@pytest.mark.parametrize("every", [EverySteps(3, 10), EverySteps(None, 10)])
def test_due_steps_are_counted_as_they_fall_due(every):
  for first in range(11):
    for last in range(first, 11):
      due = [s for s in range(first + 1, last + 1) if every.due(s)]
      assert every.count(first, last) == len(due)
