"""Random access to the records of ArrayRecord files.

array_record's own `ArrayRecordDataSource` does the same for complete files, but
it rejects a shard with missing records, which `max_bad_examples` may tolerate,
and its errors name no file.
"""

import os
import resource
import threading
from collections.abc import Sequence

import numpy as np
from etils import epath

from vit_jax.data import outages
from vit_jax.errors import UserError

# For writers: images are already compressed, so not compressing them again
# halves the read time without taking more space.
WRITER_OPTIONS = "group_size:1,uncompressed"

# File descriptors reserved for everything else that the process opens.
_OTHER_FILES = 512
# Size of a file's end, which lists the positions of its records.
_END_BYTES = 1 << 16


class ArrayRecordFiles:
  """The shards of a split; readers stay open and are shared by all threads.

  Files are opened when first read. Up to `max_missing` records may be missing
  from each.

  Raises:
    UserError: The files are in a bucket.
  """

  def __init__(
    self,
    paths: Sequence[epath.PathLike],
    shard_lengths: Sequence[int],
    max_missing: int = 0,
  ):
    self._paths = [os.fspath(path) for path in paths]
    self._lengths = shard_lengths
    self._max_missing = max_missing
    self._readers = {}
    self._lock = threading.Lock()
    if any("://" in path for path in self._paths):
      raise UserError(
        f"{self._paths[0]}: ArrayRecord files can only be read from a file"
        " system; mount the bucket (gcsfuse) or copy the dataset, and set"
        " config.data_dir to that place."
      )
    _allow_open_files(len(self._paths) + _OTHER_FILES)

  def read(self, shard: int, positions: np.ndarray) -> list[bytes]:
    """Reads the records of a shard at positions, int64 [n].

    Raises:
      UserError: A file cannot be read; the message names it.
    """

    def records() -> list[bytes]:
      try:
        reader = self._reader(shard)
        if positions.size and positions.max() >= reader.num_records():
          raise IndexError(
            f"it ends with record {reader.num_records() - 1}, record"
            f" {positions.max()} is missing"
          )
        return reader.read(positions.tolist())
      except (RuntimeError, ValueError, IndexError) as error:
        if passing := outages.named_in(str(error)):
          self._readers.pop(shard, None)  # It would not recover.
          raise passing from error
        raise

    try:
      return outages.outlast(self._paths[shard], records)
    except (RuntimeError, ValueError, IndexError, OSError) as error:
      raise damaged(self._paths[shard], str(error)) from None

  def _reader(self, shard: int):
    if shard not in self._readers:
      with self._lock:
        if shard not in self._readers:  # Another thread may have opened it.
          self._readers[shard] = self._open(shard)
    return self._readers[shard]

  def _open(self, shard: int):
    from array_record.python import array_record_module

    path, wanted = self._paths[shard], self._lengths[shard]
    for _ in range(2):
      _raise_if_out_of_order(path)
      reader = array_record_module.ArrayRecordReader(
        path,
        # Random access: no reading ahead, and no threads of its own, as several
        # calls run at once.
        "readahead_buffer_size:0,max_parallelism:0",
        file_reader_buffer_size=32768,
      )
      missing = wanted - reader.num_records()
      if not missing:
        return reader
      # During an outage it looks like a file without records.
    if not 0 < missing <= self._max_missing:
      raise ValueError(
        f"it has {reader.num_records()} records instead of {wanted}"
      )
    return reader


def _raise_if_out_of_order(path: str) -> None:
  """Reads the end of a file, which lists its records; raises OSError."""
  try:
    with open(path, "rb", buffering=0) as file:
      file.seek(-min(_END_BYTES, os.fstat(file.fileno()).st_size), os.SEEK_END)
      file.read()
  except FileNotFoundError:
    raise FileNotFoundError("the file is missing") from None


def damaged(path: str, reason: str) -> UserError:
  """Returns the error for a file of records that cannot be read."""
  return UserError(
    f"{path} cannot be read ({reason}): it is missing or damaged; remove the"
    " dataset's directory and prepare it again with python -m vit_jax.prepare."
  )


def _allow_open_files(count: int) -> None:
  """Raises the limit on open files, often 1024, as far as the system allows."""
  soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
  if soft != resource.RLIM_INFINITY and soft < wanted:
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
