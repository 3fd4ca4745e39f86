"""The order of examples in the endless training stream.

Row c is in epoch c // N at position c % N, and every epoch is a keyed
pseudo-random permutation of the N examples, computed index by index: nothing is
stored, so any row of any epoch costs about the same for any N. Only NumPy's
integers are used, so the order does not depend on library versions.
"""

import numpy as np

# Number of blocks mixed together when `shuffle_block` > 1.
WINDOW_BLOCKS = 16

# For fewer examples, a Feistel network prefers some of their orders.
_MIN_FEISTEL = 13
_ROUNDS = 8
# Purposes of keys; the last two are those of `balanced_order`.
_BLOCKS, _WINDOW, _SHORT_WINDOW, _ROWS, CLASSES, MEMBERS = range(6)


def _mix(x: np.ndarray) -> np.ndarray:
  """Applies SplitMix64's finaliser to uint64 of any shape."""
  x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
  x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
  return x ^ (x >> np.uint64(31))


def derive_key(*parts: int | np.ndarray) -> np.ndarray:
  """Derives a key, uint64 [n] or [1], from a sequence of integers."""
  key = np.zeros(1, np.uint64)
  for part in parts:
    part = np.atleast_1d(np.asarray(part)).astype(np.uint64)
    key = _mix(key + part + np.uint64(0x9E3779B97F4A7C15))
  return key


def _permute(
  index: np.ndarray, n: int | np.ndarray, key: np.ndarray
) -> np.ndarray:
  """Maps each index to its image under the permutation given by `key`.

  A Feistel network over pairs (left, right) in Z_a x Z_b, where a * b is barely
  above n; an image outside 0..n-1 is mapped again until it is inside (cycle
  walking), which keeps the map one-to-one.

  Args:
    index: int64 [m], values in 0..n-1, as in the result.
    n: Size of the permuted set, shared by all indices or int64 [m].
    key: uint64 [m] or [1].
  """
  n = np.atleast_1d(np.asarray(n, np.int64)).astype(np.uint64)
  a = _root(n - np.uint64(1)) + np.uint64(1)
  b = (n + a - np.uint64(1)) // a
  round_keys = [_mix(key + np.uint64(i + 1)) for i in range(_ROUNDS)]

  def walk(
    x: np.ndarray, a: np.ndarray, b: np.ndarray, keys: list[np.ndarray]
  ) -> np.ndarray:
    left, right = x // b, x % b
    for i, round_key in enumerate(keys):
      if i % 2:
        left = (left + _mix(right ^ round_key) % a) % a
      else:
        right = (right + _mix(left ^ round_key) % b) % b
    return left * b + right

  result = walk(index.astype(np.uint64), a, b, round_keys)
  outside = np.flatnonzero(result >= n)
  while outside.size:
    a_here, b_here, n_here, *keys = (
      x if x.size == 1 else x[outside] for x in (a, b, n, *round_keys)
    )
    result[outside] = walk(result[outside], a_here, b_here, keys)
    outside = outside[result[outside] >= n_here]
  return result.astype(np.int64)


def _root(x: np.ndarray) -> np.ndarray:
  """The integer part of the square root of uint64 below 2^52."""
  root = np.sqrt(x.astype(np.float64)).astype(np.uint64)
  return root - (root * root > x).astype(np.uint64)


def _shuffle(index: np.ndarray, n: int, key: np.ndarray) -> np.ndarray:
  """Like `_permute`, by Fisher-Yates: all permutations are equally likely.

  Takes O(n) memory for each key.
  """
  shuffled = np.tile(np.arange(n), (key.size, 1))
  row = np.arange(key.size)
  for last in range(n - 1, 0, -1):
    other = (_mix(key + np.uint64(last)) % np.uint64(last + 1)).astype(np.int64)
    held = shuffled[row, other]
    shuffled[row, other] = shuffled[:, last]
    shuffled[:, last] = held
  return shuffled[np.arange(index.size) % key.size, index]


def permute_within(
  index: np.ndarray, sizes: np.ndarray, key: np.ndarray
) -> np.ndarray:
  """Maps each index to its image under a permutation of its own set.

  Args:
    index: int64 [m], each in 0..size-1, as in the result.
    sizes: int64 [m], sizes of the permuted sets.
    key: uint64 [m]; indices with the same size and key share a permutation.
  """
  result = np.empty_like(index)
  large = sizes >= _MIN_FEISTEL
  result[large] = _permute(index[large], sizes[large], key[large])
  for size in np.unique(sizes[~large]):
    here = sizes == size
    result[here] = _shuffle(index[here], int(size), key[here])
  return result


def permute(
  index: np.ndarray, n: int, *, seed: int, epoch: int | np.ndarray
) -> np.ndarray:
  """Returns the examples at positions of an epoch of n examples, int64 [m].

  For a fixed seed and epoch, shared by all positions or int64 [m], this is a
  permutation of 0..n-1.
  """
  function = _shuffle if n < _MIN_FEISTEL else _permute
  return function(np.asarray(index), n, derive_key(seed, _ROWS, epoch))


def _permute_blocks(
  position: np.ndarray, n: int, block: int, seed: int, epoch: np.ndarray
) -> np.ndarray:
  """Like `permute`, but mixes only rows within `WINDOW_BLOCKS` blocks.

  The epoch is divided into windows, within which rows are permuted, then into
  blocks, which are permuted as a whole. The incomplete block at the end of the
  data, if any, always comes first: it is shorter than a block.
  """
  window = block * WINDOW_BLOCKS
  start = position - position % window
  full = start + window <= n
  position = position - start
  within = np.empty_like(position)
  for of_full, size, kind in (
    (True, window, _WINDOW),
    (False, n % window, _SHORT_WINDOW),
  ):
    here = np.flatnonzero(full == of_full)
    if here.size:
      key = derive_key(seed, kind, epoch[here], start[here])
      within[here] = _permute(position[here], size, key)
  position = start + within

  num_blocks, short = divmod(n, block)
  if not num_blocks:
    return position
  slot = np.maximum(position - short, 0) // block
  offset = (position - short) % block
  moved = _permute(slot, num_blocks, derive_key(seed, _BLOCKS, epoch)) * block
  return np.where(
    position < short, num_blocks * block + position, moved + offset
  )


def example_ids(
  rows: np.ndarray,
  num_examples: int,
  *,
  seed: int,
  shuffle_block: int = 1,
  repeats: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the examples at rows of the endless stream.

  Args:
    rows: int64 [m], any rows >= 0 in any order.
    num_examples: Number of examples in an epoch.
    seed: Seed of the run.
    shuffle_block: Number of consecutive examples kept together, for storage
      unsuited to random access; rows of `WINDOW_BLOCKS` such blocks are mixed.
      If 1, all examples are mixed.
    repeats: Number of consecutive rows with the same example.

  Returns:
    ids: int64 [m] in 0..num_examples-1; each exactly once in every epoch, or
      `repeats` times in an epoch that is longer by that factor.
    epochs: int64 [m].
  """
  rows = np.asarray(rows, np.int64) // repeats
  epochs, positions = np.divmod(rows, num_examples)
  if shuffle_block == 1:
    ids = permute(positions, num_examples, seed=seed, epoch=epochs)
  else:
    ids = _permute_blocks(positions, num_examples, shuffle_block, seed, epochs)
  return ids, epochs
