"""Global batches on the devices, from the rows that each host reads."""

import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vit_jax.data import features as features_lib
from vit_jax.data import order
from vit_jax.data.balanced_order import BalancedOrder
from vit_jax.data.features import LABEL, Features
from vit_jax.data.host_batches import HostBatches
from vit_jax.data.prefetch import Prefetcher
from vit_jax.data.sources import Source
from vit_jax.data.spec import Preprocess

_BATCH_AXES = ("data", "fsdp")
_EVAL_PREFETCH_BATCHES = 2


class TrainBatches:
  """Endless iterator of training batches, prefetched to the devices.

  A batch maps the names of features to global arrays, as declared by
  `Features.batch_spec`, sharded over the mesh axes data and fsdp. Row r of the
  batch is row `first_example + r` of the endless stream, for any mesh and
  number of processes.

  Attributes:
    first_example: Row of the stream at which the next batch begins.
  """

  def __init__(
    self,
    source: Source,
    *,
    features: Features,
    batch_size: int,
    seed: int,
    shuffle_block: int,
    repeats: int = 1,
    balance: BalancedOrder | None = None,
    first_example: int,
    mesh: Mesh,
    prefetch_batches: int,
    max_bad_examples: int = 0,
    bad_examples: Iterable[int] = (),
  ):
    """Starts reading.

    Args:
      source: Source of the records.
      features: Features of a batch; device ops run in the step.
      batch_size: Number B of examples in the global batch.
      seed: Seed of the order and the augmentation.
      shuffle_block: Number of records that stay together, see
        `order.example_ids`.
      repeats: Number of consecutive rows with the same example.
      balance: Order in which all classes are equally frequent, instead of that
        of whole epochs and its `shuffle_block`.
      first_example: Row of the stream at which to start.
      mesh: Mesh with axes data and fsdp, over which B is divided.
      prefetch_batches: Number of batches kept on the devices in addition to the
        one in use.
      max_bad_examples, bad_examples: As in `HostBatches`.

    Raises:
      UserError: The ops do not suit the source, or, while iterating, more than
        `max_bad_examples` records, named in the message, cannot be read.
    """

    def ids(rows: np.ndarray) -> np.ndarray:
      if balance is not None:
        return balance.example_ids(rows, seed=seed, repeats=repeats)
      return order.example_ids(
        rows,
        source.num_examples,
        seed=seed,
        shuffle_block=shuffle_block,
        repeats=repeats,
      )[0]

    self.first_example = first_example
    self._batch_size = batch_size
    self._prefetch_batches = prefetch_batches
    self._placement = Placement(mesh, batch_size)
    self._make_host_batches = functools.partial(
      HostBatches,
      source,
      features,
      order=ids,
      local_rows=self._placement.local_rows,
      batch_size=batch_size,
      seed=seed,
      max_bad_examples=max_bad_examples,
    )
    self._start(bad_examples)

  def _start(self, bad_examples: Iterable[int]) -> None:
    self._host_batches = self._make_host_batches(
      first_row=self.first_example, bad_examples=bad_examples
    )
    self._batches = Prefetcher(
      map(self._placement.put, self._host_batches), self._prefetch_batches
    )

  def __iter__(self) -> "TrainBatches":
    return self

  def __next__(self) -> dict[str, jax.Array]:
    batch = next(self._batches)
    self.first_example += self._batch_size
    return batch

  def bad_examples(self, before: int) -> list[int]:
    """Lists the examples replaced in this process's rows before `before`."""
    return self._host_batches.bad_examples(before)

  def seek(self, first_example: int, bad_examples: Iterable[int]) -> None:
    """Continues from another row of the stream."""
    self.close()
    self.first_example = first_example
    self._start(bad_examples)

  def close(self) -> None:
    """Stops the threads."""
    self._batches.close()
    self._host_batches.close()


def eval_batches(
  source: Source,
  *,
  preprocess: Preprocess,
  batch_size: int,
  mesh: Mesh,
  first_batch: int = 0,
) -> Iterator[dict[str, jax.Array]]:
  """Iterates over batches with each example exactly once, in order.

  `batch_size` is rounded up to divide over the devices; `first_batch` batches
  are skipped.

  Returns:
    Batches as in `TrainBatches` with "mask", bool [B], False for padding in the
    last batch, and "id", int32 [B]. Padding has id and label -1 and black
    images.

  Raises:
    UserError: As `TrainBatches`.
  """
  batch_size = filled_size(batch_size, mesh)
  features = features_lib.of_images(preprocess).of_source(source)
  placement = Placement(mesh, batch_size)
  num_examples = source.num_examples
  num_batches = -(-num_examples // batch_size)
  local_rows = placement.local_rows
  batches = HostBatches(
    source,
    features,
    order=lambda rows: rows,
    local_rows=local_rows,
    batch_size=batch_size,
    first_row=first_batch * batch_size,
    seed=0,
    num_rows=num_examples,
  )
  empty = {
    name: np.zeros((0, *shape), dtype)
    for name, (shape, dtype) in features.example_spec().items()
  }

  def filled() -> Iterator[dict[str, np.ndarray]]:
    for number in range(first_batch, num_batches):
      ids = number * batch_size + local_rows
      mask = ids < num_examples
      batch = next(batches) if mask.any() else empty
      batch = {
        name: _fill(array, len(ids), -1 if name == LABEL else 0)
        for name, array in batch.items()
      }
      ids = np.where(mask, ids, -1).astype(np.int32)
      yield {**batch, "mask": mask, "id": ids}

  def iterate() -> Iterator[dict[str, jax.Array]]:
    ready = Prefetcher(map(placement.put, filled()), _EVAL_PREFETCH_BATCHES)
    try:
      yield from ready
    finally:
      ready.close()
      batches.close()

  return iterate()


def images(
  source: Source, ids: np.ndarray, *, preprocess: Preprocess
) -> np.ndarray:
  """Reads a few images on the host, uint8 [len(ids), S, S, 3].

  Raises:
    UserError: As `TrainBatches`.
  """
  if not len(ids):
    side = preprocess.image_size
    return np.zeros((0, side, side, 3), np.uint8)
  features = features_lib.of_images(preprocess).of_source(source)
  batches = HostBatches(
    source,
    features,
    order=lambda rows: ids[rows],
    local_rows=np.arange(len(ids)),
    batch_size=len(ids),
    first_row=0,
    seed=0,
    num_rows=len(ids),
  )
  try:
    return next(batches)[features_lib.IMAGE]
  finally:
    batches.close()


def _fill(array: np.ndarray, length: int, value: int) -> np.ndarray:
  if len(array) == length:
    return array
  margins = [(0, length - len(array))] + [(0, 0)] * (array.ndim - 1)
  return np.pad(array, margins, constant_values=value)


def filled_size(batch_size: int, mesh: Mesh) -> int:
  """The size, rounded up so that the parts of a global batch divide it."""
  parts = math.prod(mesh.shape[axis] for axis in _BATCH_AXES)
  return -(-batch_size // parts) * parts


class Placement:
  """The rows of a global batch in this process, and their devices.

  `local_rows` is int64 [n], ascending.
  """

  def __init__(self, mesh: Mesh, batch_size: int):
    self._batch_size = batch_size
    self._sharding = NamedSharding(mesh, PartitionSpec(_BATCH_AXES))
    held = self._sharding.addressable_devices_indices_map((batch_size,))
    # Devices along other axes have copies of the same rows.
    starts = {s.indices(batch_size)[:2] for (s,) in held.values()}
    self._offsets: dict[int, int] = {}
    rows = []
    for start, stop in sorted(starts):
      self._offsets[start] = sum(map(len, rows))
      rows.append(np.arange(start, stop))
    self.local_rows = np.concatenate(rows)

  def put(self, batch: dict[str, np.ndarray]) -> dict[str, jax.Array]:
    """Makes global arrays of this process's rows, first axis `local_rows`."""

    def array(local: np.ndarray) -> jax.Array:
      def shard(index: tuple[slice, ...]) -> Any:
        start, stop, _ = index[0].indices(self._batch_size)
        offset = self._offsets[start]
        return local[offset : offset + stop - start]

      return jax.make_array_from_callback(
        (self._batch_size, *local.shape[1:]), self._sharding, shard
      )

    return {name: array(local) for name, local in batch.items()}
