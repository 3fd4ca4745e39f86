import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_jax.data import order


@settings(max_examples=60)
@given(
  n=st.integers(1, 3000),
  seed=st.integers(0, 2**32 - 1),
  epoch=st.integers(0, 10**6),
)
def test_permute_is_a_permutation(n, seed, epoch):
  ids = order.permute(np.arange(n), n, seed=seed, epoch=epoch)
  assert np.array_equal(np.sort(ids), np.arange(n))


@settings(max_examples=60)
@given(
  n=st.integers(1, 500),
  block=st.integers(1, 60),
  seed=st.integers(0, 2**32 - 1),
)
def test_every_epoch_has_every_example_exactly_once(n, block, seed):
  rows = np.arange(3 * n)
  ids, epochs = order.example_ids(rows, n, seed=seed, shuffle_block=block)
  assert np.array_equal(epochs, rows // n)
  for epoch in range(3):
    assert np.array_equal(np.sort(ids[epochs == epoch]), np.arange(n))


@pytest.mark.parametrize("block", [1, 7])
def test_rows_do_not_depend_on_what_else_is_asked(block):
  rows = np.arange(5000)
  ids, _ = order.example_ids(rows, 700, seed=3, shuffle_block=block)
  some = np.array([4999, 17, 17, 700, 2500])
  alone, _ = order.example_ids(some, 700, seed=3, shuffle_block=block)
  assert np.array_equal(alone, ids[some])


@pytest.mark.parametrize("block", [1, 16])
def test_epochs_and_seeds_differ(block):
  def epoch_of(seed, epoch):
    rows = np.arange(epoch * 1000, (epoch + 1) * 1000)
    return order.example_ids(rows, 1000, seed=seed, shuffle_block=block)[0]

  orders = [epoch_of(0, 0), epoch_of(0, 1), epoch_of(0, 2), epoch_of(1, 0)]
  for a, b in itertools.combinations(orders, 2):
    assert np.mean(a == b) < 0.02


def test_the_order_never_changes():
  ids, _ = order.example_ids(np.arange(8), 10, seed=0)
  assert ids.tolist() == [4, 2, 5, 0, 3, 8, 1, 7]
  ids, _ = order.example_ids(np.arange(86, 96), 13, seed=5)
  assert ids.tolist() == [4, 8, 1, 0, 7, 2, 12, 5, 8, 1]
  ids, _ = order.example_ids(np.arange(8), 10, seed=0, shuffle_block=2)
  assert ids.tolist() == [0, 8, 1, 7, 6, 5, 4, 9]
  ids, _ = order.example_ids(10**12 + np.arange(4), 300_000_000, seed=7)
  assert ids.tolist() == [55689342, 206254161, 27183889, 252401918]


def _assert_uniform(counts):
  """Chi-square within five standard deviations, and room for its skew."""
  expected, freedom = counts.mean(), counts.size - 1
  chi_square = np.sum((counts - expected) ** 2) / expected
  assert chi_square < freedom + 5 * np.sqrt(2 * freedom) + 10


@pytest.mark.parametrize("n", range(2, 7))
def test_every_permutation_of_few_examples_is_as_likely(n):
  ids, _ = order.example_ids(np.arange(n * 20_000), n, seed=1)
  found, counts = np.unique(ids.reshape(-1, n), axis=0, return_counts=True)
  assert len(found) == math.factorial(n)
  _assert_uniform(counts)


@pytest.mark.parametrize("n", range(2, 13))
def test_any_two_positions_of_few_examples_hold_any_two_as_likely(n):
  ids, _ = order.example_ids(np.arange(n * 20_000), n, seed=3)
  of_seeds = [
    order.permute(np.arange(n), n, seed=seed, epoch=0) for seed in range(2000)
  ]
  for orders in (ids.reshape(-1, n), np.array(of_seeds)):
    for first, second in itertools.combinations(range(min(n, 5)), 2):
      pairs = orders[:, first] * n + orders[:, second]
      counts = np.bincount(pairs, minlength=n * n).reshape(n, n)
      assert not counts.diagonal().any()
      _assert_uniform(counts[~np.eye(n, dtype=bool)])


@pytest.mark.parametrize("n", [5, 64, 1000])
def test_every_example_is_as_likely_at_every_position(n):
  epochs = 400 * n
  position = n // 3
  ids, _ = order.example_ids(position + n * np.arange(epochs), n, seed=2)
  counts = np.bincount(ids, minlength=n)
  z = (np.sum((counts - 400) ** 2 / 400) - (n - 1)) / np.sqrt(2 * n)
  assert abs(z) < 4


def test_neighbours_in_the_stream_are_not_neighbours_in_the_data():
  n = 100_000
  ids, _ = order.example_ids(np.arange(n), n, seed=0)
  distance = np.abs(np.diff(ids)) / n
  assert abs(distance.mean() - 1 / 3) < 0.01
  assert abs(np.corrcoef(ids[:-1], ids[1:])[0, 1]) < 0.02
  assert abs(np.corrcoef(ids, np.arange(n))[0, 1]) < 0.02


@pytest.mark.parametrize("block", [1, 1024])
def test_300_million_examples_take_no_memory(block):
  rows = np.arange(10**9, 10**9 + 4096)
  tracemalloc.start()
  ids, epochs = order.example_ids(
    rows, 300_000_000, seed=0, shuffle_block=block
  )
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert peak < 4e6
  assert len(np.unique(ids)) == 4096
  assert ids.min() >= 0 and ids.max() < 300_000_000
  assert set(epochs) == {3}


def test_blocks_keep_consecutive_examples_within_a_window():
  n, block = 10_000, 50
  window = block * order.WINDOW_BLOCKS
  ids, _ = order.example_ids(np.arange(n), n, seed=0, shuffle_block=block)
  for start in range(0, n, window):
    blocks = np.unique(ids[start : start + window] // block)
    # Whole blocks only: none is split between windows.
    assert len(blocks) * block == len(ids[start : start + window])
    assert not np.array_equal(blocks, np.arange(blocks[0], blocks[-1] + 1))


def test_blocks_are_mixed_within_a_window():
  ids, _ = order.example_ids(
    np.arange(10_000), 10_000, seed=0, shuffle_block=50
  )
  assert len(np.unique(ids[:64] // 50)) > 8


@settings(max_examples=60)
@given(
  n=st.integers(1, 400),
  block=st.integers(1, 40),
  processes=st.sampled_from([1, 2, 3, 5, 8]),
  first=st.integers(0, 10**12),
)
def test_any_number_of_processes_read_the_same_batch(
  n, block, processes, first
):
  """Each asks for its own rows only."""
  rows = first + np.arange(120)
  whole, _ = order.example_ids(rows, n, seed=5, shuffle_block=block)
  parts = [
    order.example_ids(part, n, seed=5, shuffle_block=block)[0]
    for part in np.array_split(rows, processes)
  ]
  assert np.array_equal(np.concatenate(parts), whole)


def _runs(ids):
  """How many stretches of consecutive records `ids` are."""
  return 1 + np.count_nonzero(np.diff(np.sort(ids)) > 1)


@settings(max_examples=100)
@given(
  n=st.integers(1, 5000),
  block=st.integers(2, 60),
  seed=st.integers(0, 2**32 - 1),
  window=st.integers(0, 10**4),
)
def test_a_window_is_a_few_stretches_of_consecutive_records(
  n, block, seed, window
):
  """What the storage sees while the stream passes through the window.

  Where the data end with a short block, that comes first and the first and the
  last block of a window are shared with its neighbours.
  """
  size = block * order.WINDOW_BLOCKS
  start = window % -(-n // size) * size
  rows = np.arange(start, min(start + size, n)) + 3 * n
  ids, _ = order.example_ids(rows, n, seed=seed, shuffle_block=block)
  assert _runs(ids) <= order.WINDOW_BLOCKS + 2
  short = n % block
  full = ids[ids < n - short]
  assert len(np.unique(full // block)) <= order.WINDOW_BLOCKS + 1


def test_windows_hold_other_blocks_in_every_epoch():
  n, block = 16_000, 50
  first = np.arange(block * order.WINDOW_BLOCKS)
  held = [
    set(
      order.example_ids(first + e * n, n, seed=0, shuffle_block=block)[0]
      // block
    )
    for e in range(4)
  ]
  for a, b in itertools.combinations(held, 2):
    assert len(a & b) <= 4  # Of 16, one on average for unrelated draws of 320.


@pytest.mark.parametrize("block", [512, 4096])
def test_a_batch_of_100_million_records_lies_in_a_few_blocks(block):
  """And without blocks in as many places as it has rows."""
  n, batch = 10**8, 4096
  for step in (0, 12_345, 24_413):  # The last one crosses the epoch's end.
    rows = step * batch + np.arange(batch)
    ids, _ = order.example_ids(rows, n, seed=1, shuffle_block=block)
    windows = batch / (block * order.WINDOW_BLOCKS)
    most = (np.ceil(windows) + 1) * (order.WINDOW_BLOCKS + 2)
    assert len(np.unique(ids // block)) <= most
    scattered, _ = order.example_ids(rows, n, seed=1)
    assert len(np.unique(scattered // block)) > 0.9 * batch


def test_repeated_rows_are_the_same_example_and_an_epoch_has_all():
  rows = np.arange(3 * 50)
  ids, epochs = order.example_ids(rows, 50, seed=3, repeats=3)
  plain, _ = order.example_ids(np.arange(50), 50, seed=3)
  assert np.array_equal(ids, np.repeat(plain, 3))
  assert not epochs.any()
