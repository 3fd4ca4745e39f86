"""Writes one shard: reads, checks and serializes its examples in order."""

import dataclasses
import os
from collections.abc import Sequence

from vit_jax import records
from vit_jax.data import checksums, integrity, parallel
from vit_jax.data.building.contract import Readable
from vit_jax.data.tfds import array_record_files

# Other threads can run during reading and decoding.
_THREADS = 4


@dataclasses.dataclass(frozen=True)
class Shard:
  """A complete shard, as described by its JSON file.

  Attributes:
    num_examples: Number of records.
    num_bytes: Bytes of all records.
    size: Bytes of the file.
    sha256: Checksum of the file.
    unusable: (name, reason) for each omitted image.
  """

  num_examples: int
  num_bytes: int
  size: int
  sha256: str
  unusable: Sequence[Sequence[str]]

  @property
  def checksum(self) -> checksums.Checksum:
    return checksums.Checksum(self.size, self.sha256)


def write(
  path: str,
  examples: Sequence[Readable],
  max_labels: int,
  done_path: str | None = None,
) -> Shard:
  """Writes a shard, under another name until it is complete.

  Args:
    path: Path of the shard.
    examples: Examples in order.
    max_labels: See `contract.Inputs`.
    done_path: Path of a JSON file, written when the shard is complete.

  Raises:
    OSError: It cannot be written.
  """
  from array_record.python import array_record_module

  num_examples = num_bytes = 0
  unusable = []
  with records.replacing(path) as partial:
    try:
      writer = array_record_module.ArrayRecordWriter(
        os.fspath(partial), array_record_files.WRITER_OPTIONS
      )
      for example, image, problem in parallel.in_threads(
        _load, examples, num_threads=_THREADS
      ):
        if problem:
          unusable.append((example.name, problem))
          continue
        record = _serialize(example, image, max_labels)
        writer.write(record)
        num_examples += 1
        num_bytes += len(record)
      writer.close()
    except RuntimeError as error:  # ArrayRecord's error for a full disk.
      raise OSError(str(error)) from None
    checksum = dataclasses.asdict(checksums.of_new_file(partial))
  shard = Shard(num_examples, num_bytes, **checksum, unusable=unusable)
  if done_path:
    records.write_json(done_path, dataclasses.asdict(shard))
  return shard


def _load(example: Readable) -> tuple[Readable, bytes, str | None]:
  """Reads and decodes an image; returns it, or the reason it is unusable."""
  try:
    image = example.read()
  except (OSError, ValueError) as error:  # ValueError: names with zero bytes.
    return example, b"", getattr(error, "strerror", None) or str(error)
  return example, image, integrity.decoding_problem(image)


def _serialize(example: Readable, image: bytes, max_labels: int) -> bytes:
  """Returns the tf.train.Example with the features that `metadata` declares.

  A set of labels becomes a list of `max_labels`, padded with -1.
  """
  from tensorflow_datasets.proto import tf_example_pb2

  record = tf_example_pb2.Example()
  feature = record.features.feature
  feature["image"].bytes_list.value.append(image)
  feature["file_name"].bytes_list.value.append(os.fsencode(example.name))
  if captions := example.captions():
    feature["text"].bytes_list.value.extend(map(str.encode, captions))
  if max_labels == 1:
    feature["label"].int64_list.value.extend(example.labels)
  elif max_labels:
    padding = [-1] * (max_labels - len(example.labels))
    feature["labels"].int64_list.value.extend([*example.labels, *padding])
  # Otherwise the order of a map's entries is arbitrary.
  return record.SerializeToString(deterministic=True)
