"""The exit codes of DESIGN, and what is done about them."""

import itertools

import pytest

from launch import exit_codes
from launch.exit_codes import Outcome, outcome
from vit_jax import command_line


@pytest.mark.parametrize(
  ("code", "expected"),
  [
    (0, Outcome.FINISHED),
    (1, Outcome.STOPPED),
    (2, Outcome.STOPPED),
    (42, Outcome.PREEMPTED),
    (130, Outcome.STOPPED),
    (134, Outcome.LOST),
    (137, Outcome.LOST),
    (139, Outcome.LOST),  # Segmentation fault.
    (143, Outcome.PREEMPTED),  # SIGTERM before there was a handler.
  ],
)
def test_each_code_has_its_outcome(code, expected):
  assert outcome(code) == expected


def test_they_are_the_codes_that_train_uses():
  from vit_jax.processes import liveness, stopping
  from vit_jax.training import watchdog

  assert outcome(stopping.EXIT_PREEMPTED) == Outcome.PREEMPTED
  assert outcome(liveness.EXIT_LOST) == Outcome.LOST
  assert outcome(watchdog.EXIT_HUNG) == Outcome.LOST
  assert outcome(command_line.EXIT_BAD_INPUT) == Outcome.STOPPED
  assert outcome(command_line.EXIT_INTERRUPTED) == Outcome.STOPPED


def test_the_worst_process_speaks_for_all():
  for codes in itertools.permutations([0, 42, 134, 1]):
    assert exit_codes.of_all(codes) == 1
  assert exit_codes.of_all([0, 0]) == 0
  assert exit_codes.of_all([134, 137, 42]) == 134


def test_a_killed_process_has_the_code_of_a_shell():
  assert exit_codes.as_shell(-9) == 137
  assert exit_codes.as_shell(7) == 7
