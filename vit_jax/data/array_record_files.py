"""Random access to the records of ArrayRecord files."""

import os
import resource
import threading
from collections.abc import Sequence

import numpy as np
from etils import epath

from vit_jax.errors import UserError

# How to write such files: images are compressed already, so it takes half the
# time to read them, and the same space.
WRITER_OPTIONS = "group_size:1,uncompressed"

# Descriptors left to everything else that the process opens.
_OTHER_FILES = 512


class ArrayRecordFiles:
  """The shards of a split; readers stay open and are shared by all threads."""

  def __init__(
    self,
    paths: Sequence[epath.PathLike],
    shard_lengths: Sequence[int],
    max_missing: int = 0,
  ):
    """Opens nothing yet.

    Args:
      paths: the shards.
      shard_lengths: records in each of them.
      max_missing: records that each of them may lack.

    Raises:
      UserError: if they are in a bucket.
    """
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
    """Records of one shard.

    Args:
      shard: number of the shard.
      positions: int64 [n], positions in it.

    Raises:
      UserError: naming the file that cannot be read.
    """
    try:
      reader = self._reader(shard)
      if positions.size and positions.max() >= reader.num_records():
        raise IndexError(
          f"it ends with record {reader.num_records() - 1}, record"
          f" {positions.max()} is missing"
        )
      return reader.read(positions.tolist())
    except (RuntimeError, ValueError, IndexError, OSError) as error:
      raise damaged(self._paths[shard], str(error)) from None

  def _reader(self, shard: int):
    reader = self._readers.get(shard)
    if reader is None:
      with self._lock:
        reader = self._readers.get(shard)
        if reader is None:
          reader = self._readers[shard] = self._open(shard)
    return reader

  def _open(self, shard: int):
    from array_record.python import array_record_module

    path = self._paths[shard]
    if not os.path.exists(path):
      raise FileNotFoundError("the file is missing")
    reader = array_record_module.ArrayRecordReader(
      path,
      # Random access: nothing ahead of what is asked for, and no threads of
      # its own, for several calls run at once.
      "readahead_buffer_size:0,max_parallelism:0",
      file_reader_buffer_size=32768,
    )
    missing = self._lengths[shard] - reader.num_records()
    if not 0 <= missing <= self._max_missing:
      raise ValueError(
        f"it has {reader.num_records()} records instead of"
        f" {self._lengths[shard]}"
      )
    return reader


def damaged(path: str, reason: str) -> UserError:
  """What to say of a file of records that cannot be read."""
  return UserError(
    f"{path} cannot be read ({reason}): it is missing or damaged; remove the"
    " dataset's directory and prepare it again with python -m vit_jax.prepare."
  )


def _allow_open_files(count: int) -> None:
  """Raises this process's limit, often 1024, where the system lets it."""
  soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
  if soft != resource.RLIM_INFINITY and soft < wanted:
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
