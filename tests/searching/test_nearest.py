"""Exact search, beside a sort of all products."""

import numpy as np
import pytest

from vit_jax.searching import nearest


def expected(queries, rows, count):
  """The whole table of products, sorted; the lower number first of ties."""
  products = queries @ rows.T
  order = np.argsort(-products, axis=1, kind="stable")[:, :count]
  return np.take_along_axis(products, order, axis=1), order


@pytest.mark.parametrize("sizes", [(100,), (1, 30, 0, 69), (5,) * 20])
@pytest.mark.parametrize("count", [1, 7, 100, 1000])
def test_found_rows_are_those_of_a_sort_of_all(sizes, count):
  rng = np.random.default_rng(0)
  # Whole numbers: their products are exact, and many are equal.
  rows = rng.integers(-2, 3, (100, 8)).astype(np.float32)
  queries = rng.integers(-2, 3, (6, 8)).astype(np.float32)
  blocks = np.split(rows, np.cumsum(sizes)[:-1])
  values, numbers = expected(queries, rows, count)
  for query, (value, number) in enumerate(
    nearest.largest(queries, blocks, count)
  ):
    np.testing.assert_array_equal(value, values[query])
    np.testing.assert_array_equal(number, numbers[query])


def test_nothing_is_found_in_nothing():
  ((values, numbers),) = nearest.largest(np.ones((1, 4), np.float32), [], 5)
  assert len(values) == len(numbers) == 0


def test_equal_rows_are_found_in_their_order():
  rows = np.ones((50, 3), np.float32)
  ((_, numbers),) = nearest.largest(rows[:1], [rows[:20], rows[20:]], 30)
  np.testing.assert_array_equal(numbers, np.arange(30))


@pytest.mark.parametrize("num_queries", [1, 8, 9, 30])
def test_many_rows_are_found_as_by_a_sort_of_all(num_queries):
  rng = np.random.default_rng(0)
  rows = rng.integers(-9, 10, (100_000, 4)).astype(np.float32)
  queries = rng.integers(-9, 10, (num_queries, 4)).astype(np.float32)
  values, numbers = expected(queries, rows, 50)
  blocks = np.split(rows, range(0, 100_000, 7_000))
  for query, (value, number) in enumerate(nearest.largest(queries, blocks, 50)):
    np.testing.assert_array_equal(value, values[query])
    np.testing.assert_array_equal(number, numbers[query])
