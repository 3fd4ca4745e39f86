"""Exact nearest neighbours among rows that lie in blocks."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int

# Products that are looked through at once, of each query.
_COLUMNS = 1 << 15
_FEW_QUERIES = 8


def largest(
  queries: Float[np.ndarray, "q e"],
  blocks: Iterable[Float[np.ndarray, "_ e"]],
  count: int,
) -> Sequence[tuple[Float[np.ndarray, " k"], Int[np.ndarray, " k"]]]:
  """Finds the rows with the largest products with each query.

  Blocks are multiplied one after the other, so they may be mapped files that
  are larger than the memory.

  Args:
    queries: A query in each row.
    blocks: The rows that are searched; they are numbered through all blocks.
    count: Number of rows found, or of all rows if these are fewer.

  Returns:
    For each query the products and the numbers of the rows, the largest first;
    of equal ones, the lower number first.
  """
  values = [np.empty(0, np.float32) for _ in queries]
  numbers = [np.empty(0, np.int64) for _ in queries]
  start = 0
  for products in _products(queries, blocks):
    for query, row in enumerate(products):
      # Rows of earlier blocks come first, so an equal one is no better.
      is_full = len(values[query]) == count
      least = values[query][-1] if is_full else -np.inf
      places = np.flatnonzero(row > least)
      chosen = places[_largest(row[places], count)]
      found = np.concatenate([values[query], row[chosen]])
      best = np.argsort(-found, kind="stable")[:count]
      values[query] = found[best]
      numbers[query] = np.concatenate([numbers[query], start + chosen])[best]
    start += products.shape[1]
  return list(zip(values, numbers, strict=True))


def _products(
  queries: Float[np.ndarray, "q e"],
  blocks: Iterable[Float[np.ndarray, "_ e"]],
) -> Iterator[Float[np.ndarray, "q _"]]:
  """Products with the rows of all blocks, several blocks at once."""
  waiting: list[Float[np.ndarray, "_ e"]] = []
  for block in blocks:
    waiting.append(block)
    if sum(map(len, waiting)) >= _COLUMNS:
      yield _multiply(queries, waiting)
      waiting = []
  if waiting:
    yield _multiply(queries, waiting)


def _multiply(
  queries: Float[np.ndarray, "q e"],
  blocks: Sequence[Float[np.ndarray, "_ e"]],
) -> Float[np.ndarray, "q _"]:
  # A copy takes longer than the products of few queries, and less time than
  # many small products of many.
  if len(queries) <= _FEW_QUERIES:
    return np.concatenate([queries @ block.T for block in blocks], axis=1)
  return queries @ np.concatenate(blocks).T


def _largest(
  values: Float[np.ndarray, " n"], count: int
) -> Int[np.ndarray, " k"]:
  """Numbers of the largest values, in order; of ties, the first."""
  if len(values) <= count:
    return np.arange(len(values))
  # The partition chooses freely among values that equal the last one.
  last = values[np.argpartition(values, -count)[-count:]].min()
  above = np.flatnonzero(values > last)
  equal = np.flatnonzero(values == last)[: count - len(above)]
  return np.sort(np.concatenate([above, equal]))
