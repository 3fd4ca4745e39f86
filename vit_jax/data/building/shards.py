"""Writes one shard: reads, checks and serializes its examples in order."""

import concurrent.futures
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax import records
from vit_jax.data import array_record_files, checksums, integrity
from vit_jax.data.building import workers
from vit_jax.data.building.contract import Example, Place, UnusableImage

# Reading and decoding let other threads run.
_THREADS = 4
_CHUNK = 64
_UNFINISHED = ".unfinished"


@dataclasses.dataclass(frozen=True)
class ShardTask:
  """A shard that is to be written.

  Attributes:
    path: of the file.
    done_path: of the JSON file that says that it is whole; None: there is
      none.
    places: of its examples, in order.
    max_labels: see `contract.Inputs`.
  """

  path: str
  done_path: str | None
  places: Sequence[Place]
  max_labels: int


@dataclasses.dataclass(frozen=True)
class Shard:
  """A shard that is whole.

  Attributes:
    num_examples: records in it.
    num_bytes: of the records.
    size: of the file, bytes.
    sha256: of the file.
    unusable: (name, reason) of the images that were left out.
  """

  num_examples: int
  num_bytes: int
  size: int
  sha256: str
  unusable: tuple[tuple[str, str], ...]

  @classmethod
  def from_json(cls, value: Mapping[str, Any]) -> "Shard":
    """What was written at `done_path`."""
    unusable = tuple((name, reason) for name, reason in value["unusable"])
    return cls(**{**value, "unusable": unusable})


def write(task: ShardTask) -> tuple[str, Shard]:
  """Writes a shard; until it is whole it has another name.

  Returns:
    The name of the file, and what is in it.

  Raises:
    OSError: it cannot be written.
  """
  unfinished = f"{task.path}.{os.getpid()}{_UNFINISHED}"
  try:
    num_examples, num_bytes, unusable = _write(unfinished, task)
    checksum = checksums.of_new_file(unfinished)
    os.replace(unfinished, task.path)
  finally:
    if os.path.exists(unfinished):
      os.unlink(unfinished)
  shard = Shard(
    num_examples=num_examples,
    num_bytes=num_bytes,
    size=checksum.size,
    sha256=checksum.sha256,
    unusable=tuple((u.name, u.reason) for u in unusable),
  )
  if task.done_path:
    records.write_json(task.done_path, dataclasses.asdict(shard))
  return os.path.basename(task.path), shard


def is_unfinished(file: str) -> bool:
  """Whether a file is what a process that was killed has left."""
  return file.endswith(_UNFINISHED)


def load(place: Place) -> Example | UnusableImage:
  """Reads an example and decodes its image once, as a pipeline would."""
  try:
    example = place.read()
  except UnusableImage as problem:
    return problem
  if reason := integrity.decoding_problem(example.image):
    return UnusableImage(example.name, reason)
  return example


def serialize(example: Example, max_labels: int) -> bytes:
  """The tf.train.Example of the features that `metadata` declares.

  Args:
    example: with no more than `max_labels` labels.
    max_labels: 1: one feature `label`; more: a list `labels` of that length,
      filled up with -1.
  """
  from tensorflow_datasets.proto import tf_example_pb2

  record = tf_example_pb2.Example()
  feature = record.features.feature
  feature["image"].bytes_list.value.append(example.image)
  feature["file_name"].bytes_list.value.append(os.fsencode(example.name))
  if max_labels == 1:
    feature["label"].int64_list.value.extend(example.labels)
  else:
    filling = [-1] * (max_labels - len(example.labels))
    feature["labels"].int64_list.value.extend([*example.labels, *filling])
  # The order of a map's entries is otherwise any.
  return record.SerializeToString(deterministic=True)


def _write(path: str, task: ShardTask) -> tuple[int, int, list[UnusableImage]]:
  """Number of records, their bytes, and what was left out."""
  from array_record.python import array_record_module

  num_examples = num_bytes = 0
  unusable: list[UnusableImage] = []
  try:
    writer = array_record_module.ArrayRecordWriter(
      path, array_record_files.WRITER_OPTIONS
    )
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
      for start in range(0, len(task.places), _CHUNK):
        chunk = task.places[start : start + _CHUNK]
        for found in pool.map(load, chunk):
          if isinstance(found, UnusableImage):
            unusable.append(found)
          else:
            record = serialize(found, task.max_labels)
            writer.write(record)
            num_examples += 1
            num_bytes += len(record)
        workers.advance(len(chunk))
    writer.close()
  except RuntimeError as error:  # What ArrayRecord makes of a full disk.
    raise OSError(str(error)) from None
  return num_examples, num_bytes, unusable
