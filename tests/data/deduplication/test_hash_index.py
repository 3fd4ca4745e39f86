"""The index finds what comparing all pairs would find."""

import numpy as np
import pytest

from vit_jax.data.deduplication import perceptual_hash
from vit_jax.data.deduplication.hash_index import HashIndex

WORDS = perceptual_hash.BITS // 64


def hashes(count, seed=0):
  rng = np.random.default_rng(seed)
  return rng.integers(0, 2**64, (count, WORDS), np.uint64, endpoint=False)


def turned(values, counts, seed=1):
  """Each hash with so many of its bits turned, anywhere."""
  rng = np.random.default_rng(seed)
  bits = np.unpackbits(values.view(np.uint8), axis=1)
  for row, count in zip(bits, counts, strict=True):
    row[rng.choice(len(row), count, replace=False)] ^= 1
  return np.packbits(bits, axis=1).view(np.uint64)


def all_pairs(queries, entries, max_distance):
  differing = queries[:, None] ^ entries[None]
  bits = np.unpackbits(differing.view(np.uint8), axis=-1).sum(-1, dtype=int)
  return {
    (int(q), int(e), int(bits[q, e]))
    for q, e in np.argwhere(bits <= max_distance)
  }


def found(queries, entries, max_distance):
  columns = HashIndex(entries, max_distance=max_distance).search(queries)
  return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("max_distance", [0, 1, 5, 15, 16, 17, 31, 32, 40])
def test_every_near_pair_is_found_once_and_no_other(max_distance):
  entries = hashes(300)
  counts = np.arange(300) % (max_distance + 8)
  queries = np.concatenate([turned(entries, counts), hashes(50, seed=2)])
  pairs = found(queries, entries, max_distance)
  assert set(pairs) == all_pairs(queries, entries, max_distance)
  assert pairs == sorted(set(pairs))
  assert len(pairs) >= np.count_nonzero(counts <= max_distance)


@pytest.mark.parametrize("max_distance", [17, 31, 40])
def test_bits_spread_evenly_over_the_bands_are_no_way_out(max_distance):
  """The worst case: no band of 16 bits differs less than the average."""
  entry = hashes(1)
  bits = np.zeros(perceptual_hash.BITS, np.uint8)
  numbers = np.arange(max_distance)
  bands = perceptual_hash.BITS // 16
  bits[16 * (numbers % bands) + numbers // bands] = 1
  for shift in range(bands):
    moved = np.packbits(np.roll(bits, 16 * shift)).view(np.uint64)
    assert found(entry ^ moved, entry, max_distance) == [(0, 0, max_distance)]
    assert found(entry ^ moved, entry, max_distance - 1) == []


def test_many_equal_hashes_are_compared_in_parts(monkeypatch):
  monkeypatch.setattr(
    "vit_jax.data.deduplication.hash_index._MAX_CANDIDATES", 100
  )
  entries = np.repeat(hashes(1), 40, axis=0)
  pairs = found(np.repeat(entries[:1], 7, axis=0), entries, 0)
  assert pairs == [(q, e, 0) for q in range(7) for e in range(40)]


def test_no_queries_find_nothing():
  assert found(hashes(0), hashes(3), 20) == []
  assert found(hashes(3), hashes(0), 20) == []
