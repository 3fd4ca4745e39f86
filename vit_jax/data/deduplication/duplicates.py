"""Search for training images that are near images of test sets.

The hashes of the test sets are in memory; those of the training set are read in
pieces from their file, so that its size affects only the run time.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from vit_jax.data import parallel
from vit_jax.data.deduplication import hash_file, perceptual_hash
from vit_jax.data.deduplication.hash_index import HashIndex
from vit_jax.data.sources import Source

_PIECE = 1 << 15


@dataclasses.dataclass(frozen=True)
class Hashed:
  """A dataset, its display name, and the file of its hashes."""

  name: str
  source: Source
  path: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Duplicate:
  """A training image and an image of test set number `test_set`.

  Their hashes differ in `distance` bits, after mirroring one if `mirrored`.
  """

  train_id: int
  test_set: int
  test_id: int
  distance: int
  mirrored: bool


def find(
  train: Hashed,
  tests: Sequence[Hashed],
  *,
  max_distance: int,
  num_threads: int,
  show: Callable[[int, int], None],
) -> Iterator[Duplicate]:
  """Finds all near pairs, including mirrored ones.

  Args:
    train: The training set.
    tests: The test sets.
    max_distance: Number of bits in which the hashes of a pair may differ.
    num_threads: Number of threads for comparisons.
    show: Called with the number of training images compared and the total.

  Yields:
    Each pair once, by ascending `train_id`, `test_set` and `test_id`. Flat and
    unreadable images are not in any pair.
  """
  found = [_views(test, 0, test.source.num_examples) for test in tests]
  test_set = np.repeat(np.arange(len(tests)), [len(ids) for ids, _ in found])
  test_id = np.concatenate([ids for ids, _ in found])
  values = np.concatenate([values for _, values in found])
  index = HashIndex(
    np.concatenate([values, perceptual_hash.mirrored(values)]),
    max_distance=max_distance,
  )
  total = train.source.num_examples

  def search(start: int) -> list[np.ndarray]:
    train_id, queries = _views(train, start, _PIECE)
    query, *others = index.search(queries)
    return [train_id[query], *others]

  starts = range(0, total, _PIECE)
  results = parallel.in_threads(search, starts, num_threads=num_threads)
  for start, (train_id, entry, distance) in zip(starts, results, strict=True):
    if len(entry):
      mirrored, entry = np.divmod(entry, len(values))
      tested = test_set[entry], test_id[entry]
      columns = (train_id, *tested, distance, mirrored)
      # Among several views of a pair, the nearest comes first.
      order = np.lexsort(columns[::-1])
      previous = None
      for row in np.stack(columns, axis=1)[order].tolist():
        if row[:3] != previous:
          yield Duplicate(*row[:4], mirrored=bool(row[4]))
        previous = row[:3]
    show(min(start + _PIECE, total), total)


def count(dataset: Hashed, state: int) -> int:
  """Counts the images of a dataset in a state of `hash_file`."""
  return sum(len(ids) for ids in _in_state(dataset, state))


def names(dataset: Hashed, state: int) -> list[str]:
  """Names the images of a dataset in a state of `hash_file`."""
  pieces = _in_state(dataset, state)
  return [name for ids in pieces for name in dataset.source.names(ids)]


def _in_state(dataset: Hashed, state: int) -> Iterator[np.ndarray]:
  """Yields int64 [n], numbers of images in a state."""
  for start in range(0, dataset.source.num_examples, _PIECE):
    records = hash_file.read(dataset.path, start, _PIECE)
    yield start + np.flatnonzero(records["state"] == state)


def _views(
  dataset: Hashed, start: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the views of comparable images, each once.

  Returns:
    int64 [n], numbers of the images, and uint64 [n, words], hashes.
  """
  records = hash_file.read(dataset.path, start, count)
  good = records["state"] == hash_file.GOOD
  ids, hashes = start + np.flatnonzero(good), records["hash"][good]
  differs = (hashes[:, 0] != hashes[:, 1]).any(axis=1)
  return (
    np.concatenate([ids, ids[differs]]),
    np.concatenate([hashes[:, 0], hashes[differs, 1]]),
  )
