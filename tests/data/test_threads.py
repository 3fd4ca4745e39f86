"""Results come in order, and no more of them than are asked for."""

import itertools
import threading
import time

import pytest

from vit_jax.data import threads


def test_results_are_those_of_map_whoever_is_first():
  def late(number):
    time.sleep(0.002 * (5 - number % 5))
    return number**2

  found = list(threads.in_order(late, range(40), num_threads=4))
  assert found == [number**2 for number in range(40)]


def test_calls_are_under_way_at_once():
  together = threading.Barrier(3, timeout=100)
  results = threads.in_order(lambda _: together.wait(), range(3), num_threads=3)
  assert sorted(results) == [0, 1, 2]


def test_tasks_are_taken_as_results_are():
  taken = itertools.count()
  tasks = (next(taken) for _ in itertools.repeat(None))
  results = threads.in_order(lambda task: task, tasks, num_threads=2)
  assert [next(results) for _ in range(3)] == [0, 1, 2]
  results.close()
  assert next(taken) < 12


def test_an_error_comes_out_where_its_result_would():
  def call(number):
    return 1 // (2 - number)

  results = threads.in_order(call, range(9), num_threads=3)
  assert [next(results), next(results)] == [0, 1]
  with pytest.raises(ZeroDivisionError):
    next(results)
