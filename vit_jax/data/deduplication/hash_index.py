"""Search for all hashes within a distance of others, faster than pairwise.

Hashes are divided into bands of 16 bits. If two hashes of B bands differ in D =
q B + r bits in total, then one of the first r + 1 bands differs in at most q
bits, or one of the others in at most q - 1. Only hashes that pass this test are
compared (Norouzi et al., arXiv 1307.2982; Faiss provides it as
IndexBinaryMultiHash, a dependency that would replace these hundred lines).
"""

import itertools

import numpy as np

from vit_jax.data.deduplication import perceptual_hash

_BAND_BITS = 16
_BAND = np.dtype("<u2")
# Number of comparisons, and of queries looked up, at a time.
_MAX_CANDIDATES = 1 << 20
_CHUNK = 1 << 14


class HashIndex:
  """Hashes in memory that can be searched for those near given ones.

  Takes 4 bytes of memory for each band of a hash in addition to the hash
  itself, and up to 50 MB for a search.

  Args:
    values: Hashes, uint64 [n, words].
    max_distance: Number of bits in which near hashes may differ.
  """

  def __init__(self, values: np.ndarray, *, max_distance: int):
    bands = np.ascontiguousarray(values).view(_BAND)
    # Stored by word, as read by `_near`.
    self._values = np.asfortranarray(values)
    self._max_distance = max_distance
    radius, rest = divmod(max_distance, bands.shape[1])
    wide, narrow = _masks(radius), _masks(radius - 1)
    self._masks = [
      wide if band <= rest else narrow for band in range(bands.shape[1])
    ]
    self._order, self._starts = [], []
    for band in bands.T:
      order = np.argsort(band, kind="stable").astype(np.uint32)
      counts = np.bincount(band, minlength=1 << _BAND_BITS)
      self._order.append(order)
      self._starts.append(np.concatenate([[0], np.cumsum(counts)]))

  def search(
    self, queries: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds all pairs of a query, uint64 [m, words], and an entry near it.

    Returns:
      int64 [p] each: number of the query, ascending; number of the entry,
      ascending within a query; distance, bits.
    """
    queries = np.ascontiguousarray(queries)
    found = [np.empty((0, 2), np.int64)]
    for start in range(0, len(queries), _CHUNK):
      rows = np.arange(start, min(start + _CHUNK, len(queries)))
      for band in range(len(self._order)):
        keys = queries.view(_BAND)[rows, band]
        for mask in self._masks[band]:
          found += self._near(queries, rows, band, keys ^ mask)
    # A pair may match in several bands.
    pairs = np.unique(np.concatenate(found), axis=0)
    query, entry = pairs[:, 0], pairs[:, 1]
    distance = perceptual_hash.distances(queries[query], self._values[entry])
    return query, entry, distance

  def _near(
    self, queries: np.ndarray, rows: np.ndarray, band: int, keys: np.ndarray
  ) -> list[np.ndarray]:
    """Finds near pairs, int64 [p, 2], among pairs with equal keys in a band."""
    starts = self._starts[band]
    first = starts[keys]
    counts = starts[keys.astype(np.int64) + 1] - first
    total = counts.sum()
    if not total:
      return []
    if total > _MAX_CANDIDATES and len(rows) > 1:
      half = len(rows) // 2
      return [
        *self._near(queries, rows[:half], band, keys[:half]),
        *self._near(queries, rows[half:], band, keys[half:]),
      ]
    # A query is repeated for every entry of its bucket; the entries of a bucket
    # are consecutive.
    shift = first - (np.cumsum(counts) - counts)
    entry = self._order[band][np.arange(total) + np.repeat(shift, counts)]
    distance = np.zeros(total, np.uint8)
    for word in range(queries.shape[1]):
      of_query = np.repeat(queries[rows, word], counts)
      of_entry = self._values[:, word][entry]
      distance += np.bitwise_count(of_query ^ of_entry)
    near = np.flatnonzero(distance <= self._max_distance)
    if not near.size:
      return []
    query = rows[np.searchsorted(np.cumsum(counts), near, side="right")]
    return [np.stack([query, entry[near].astype(np.int64)], axis=1)]


def _masks(radius: int) -> np.ndarray:
  """Returns uint16 [k]: all masks of at most `radius` bits; none for -1."""
  masks = [
    sum(1 << bit for bit in bits)
    for count in range(radius + 1)
    for bits in itertools.combinations(range(_BAND_BITS), count)
  ]
  return np.array(masks, _BAND)
