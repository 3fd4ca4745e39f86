"""Nearest neighbours by cosine similarity, and their votes.

The rows of the training set are divided over the devices. Each device finds the
best of its own rows for a chunk of queries, and the best overall are chosen
from those, so no device holds more than its part of the training set and a
bounded number of similarities.
"""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int

from vit_jax.sharding import arrays
from vit_jax.sharding import mesh as meshes

# Similarities that a device holds at a time: 256 MB.
_MAX_SIMILARITIES = 2**26
_MAX_QUERIES = 512
_SMALLEST_NORM = 1e-12


class Neighbors:
  """A training set on the devices, searched for neighbours.

  Args:
    features: Features of the training set, finite.
    count: Number of neighbours per query, at most n.
    mesh: Devices; rows are divided over the axes `data` and `fsdp`.
  """

  def __init__(
    self, features: Float[np.ndarray, "n d"], *, count: int, mesh: Mesh
  ):
    num_rows, width = features.shape
    shards = meshes.batch_shards(mesh)
    local_rows = -(-num_rows // shards)
    self._mesh = mesh
    self._chunk = min(_MAX_QUERIES, max(_MAX_SIMILARITIES // local_rows, 1))

    def shard(index: tuple[slice, ...]) -> Float[np.ndarray, "rows d"]:
      start, stop, _ = index[0].indices(shards * local_rows)
      rows = normalized(features[start:stop])
      return np.pad(rows, ((0, stop - start - len(rows)), (0, 0)))

    self._bank = arrays.divided(
      (shards * local_rows, width), meshes.batch_sharding(mesh), shard
    )
    rows = PartitionSpec(meshes.BATCH_AXES)
    self._find = jax.jit(
      jax.shard_map(
        functools.partial(_nearest, num_rows=num_rows, count=count),
        mesh=mesh,
        in_specs=(rows, PartitionSpec()),
        out_specs=PartitionSpec(),
        # The result of all_gather is equal on all devices.
        check_vma=False,
      )
    )

  def chunks(
    self, queries: Float[np.ndarray, "m d"]
  ) -> Iterator[
    tuple[Float[np.ndarray, "c count"], Int[np.ndarray, "c count"]]
  ]:
    """Yields (similarities, rows of the training set), most similar first.

    Equally similar rows are in their original order. Chunks follow the order of
    the queries.
    """
    for start in range(0, len(queries), self._chunk):
      part = normalized(queries[start : start + self._chunk])
      # A single shape, so that one program serves all.
      filled = np.pad(part, ((0, self._chunk - len(part)), (0, 0)))
      placed = arrays.divided(
        filled.shape, meshes.replicated(self._mesh), filled.__getitem__
      )
      similarity, rows = jax.device_get(self._find(self._bank, placed))
      yield similarity[: len(part)], rows[: len(part)]


def normalized(
  features: Float[np.ndarray, "n d"],
) -> Float[np.ndarray, "n d"]:
  """Scales rows to length 1; rows of zeros are unchanged."""
  norms = np.linalg.norm(features, axis=1, keepdims=True)
  return features / np.maximum(norms, np.float32(_SMALLEST_NORM))


def vote(
  similarity: Float[np.ndarray, "m k"],
  labels: Int[np.ndarray, "m k"],
  *,
  temperature: float,
  num_classes: int,
) -> Int[np.ndarray, " m"]:
  """Returns the class with the most votes; the first one in case of ties.

  Args:
    similarity: Similarities of the neighbours, the most similar first.
    labels: Classes of the neighbours, in 0..num_classes-1.
    temperature: Temperature of a vote's weight, exp(similarity / temperature).
    num_classes: Number of classes.
  """
  # Relative to the first, as a low temperature would exceed float64's range.
  relative = similarity.astype(np.float64) - similarity[:, :1]
  cells = np.arange(len(labels))[:, None] * num_classes + labels
  votes = np.bincount(
    cells.ravel(),
    np.exp(relative / temperature).ravel(),
    minlength=len(labels) * num_classes,
  )
  return votes.reshape(len(labels), num_classes).argmax(axis=1)


def _nearest(
  bank: Float[Array, "rows d"],
  queries: Float[Array, "c d"],
  *,
  num_rows: int,
  count: int,
) -> tuple[Float[Array, "c count"], Int[Array, "c count"]]:
  """Searches on one device; `bank` has its rows, with padding at the end."""
  first = jax.lax.axis_index(meshes.BATCH_AXES) * len(bank)
  similarity = jnp.matmul(queries, bank.T, precision="highest")
  is_row = (first + jnp.arange(len(bank)) < num_rows)[None, :]
  similarity = jnp.where(is_row, similarity, -jnp.inf)
  best, rows = jax.lax.top_k(similarity, min(count, len(bank)))
  best, rows = (
    jax.lax.all_gather(part, meshes.BATCH_AXES, axis=1, tiled=True)
    for part in (best, first + rows)
  )
  best, places = jax.lax.top_k(best, count)
  return best, jnp.take_along_axis(rows, places, axis=1)
