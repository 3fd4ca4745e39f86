"""Queries a second over an index of random vectors, and the time to read it.

  python benchmarks/searching.py --index=DIR

Unless DIR has one, this writes an index of --rows vectors of --width numbers in
shards of 512, as `vit_jax.search` does. The vectors have unit length. The time
is that of `Index.search` for the 20 nearest vectors of one query and of
--queries at once, compared with one product of NumPy with all vectors in one
array in memory.
"""

import argparse
import pathlib
import statistics
import time
from collections.abc import Callable

import numpy as np
from etils import epath

from vit_jax.searching import index as indexes
from vit_jax.searching import shards, updating

SOURCE = indexes.Source("/images", "random", None, "")


def write(place: pathlib.Path, rows: int, width: int) -> None:
  """Writes the shards of random vectors."""
  place.mkdir(parents=True)
  rng = np.random.default_rng(0)
  size = updating.SHARD_SIZE
  for number, start in enumerate(range(0, rows, size)):
    count = min(size, rows - start)
    entries = [
      shards.Entry(f"folder/{start + row:07d}.jpg", shards.Stamp(1, 1))
      for row in range(count)
    ]
    vectors = unit(rng.standard_normal((count, width), np.float32))
    shards.write(epath.Path(place), number, entries, [], vectors)


def unit(vectors: np.ndarray) -> np.ndarray:
  return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def seconds(call: Callable[[], object], rounds: int) -> float:
  """Returns the median time of a call, after one that is not counted."""
  call()
  taken = []
  for _ in range(rounds):
    start = time.perf_counter()
    call()
    taken.append(time.perf_counter() - start)
  return statistics.median(taken)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--index", type=pathlib.Path, required=True)
  parser.add_argument("--rows", type=int, default=1_000_000)
  parser.add_argument("--width", type=int, default=512)
  parser.add_argument("--queries", type=int, default=64)
  parser.add_argument("--rounds", type=int, default=5)
  options = parser.parse_args()
  if not options.index.exists():
    write(options.index, options.rows, options.width)
  start = time.perf_counter()
  index = indexes.load(str(options.index), SOURCE)
  print(f"{index.num_images:,} vectors: read and verified in", end=" ")
  print(f"{time.perf_counter() - start:.1f} s")
  rng = np.random.default_rng(1)
  queries = unit(
    rng.standard_normal((options.queries, options.width), np.float32)
  )
  whole = np.concatenate([shard.embeddings for shard in index.shards])
  for asked in (queries[:1], queries):
    ours = seconds(lambda asked=asked: index.search(asked, 20), options.rounds)
    plain = seconds(lambda asked=asked: asked @ whole.T, options.rounds)
    print(
      f"{len(asked)} at once: {len(asked) / ours:.1f} queries/s; the product"
      f" alone {len(asked) / plain:.1f} queries/s"
    )


if __name__ == "__main__":
  main()
