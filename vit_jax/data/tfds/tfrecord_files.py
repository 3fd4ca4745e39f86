"""Random access to the records of TFRecord files, by an index of offsets.

TensorFlow reads such files only sequentially. A record consists of the length
of its data (uint64), a checksum of the length (uint32), the data and a checksum
of the data (uint32). The positions of records are found once, following the
lengths, and cached by `vit_jax.data.index_files`.
"""

import functools
import io
import logging
import os
import struct
from collections.abc import Sequence

import numpy as np
from etils import epath

from vit_jax import buckets
from vit_jax.data import index_files, outages, parallel
from vit_jax.data.tfds.array_record_files import damaged

_LENGTH = struct.Struct("<Q")
_HEADER_BYTES = 12
_FOOTER_BYTES = 4
_THREADS = 16

_logger = logging.getLogger(__name__)


class TFRecordFiles:
  """The shards of a split, opened for each call.

  Loads the index, or builds it by reading the length of every record. All paths
  are in one directory; up to `max_missing` records may be missing from each
  file.

  Raises:
    UserError: A file, named in the message, is missing, truncated or damaged.
  """

  def __init__(
    self,
    paths: Sequence[epath.PathLike],
    shard_lengths: Sequence[int],
    max_missing: int = 0,
  ):
    self._paths = [os.fspath(path) for path in paths]
    self._ends = np.cumsum([0, *shard_lengths])
    sizes = [_size(path) for path in self._paths]
    places = index_files.places(self._paths, sizes, "offsets")
    offsets = index_files.load(places, functools.partial(self._fits, sizes))
    if offsets is None:
      offsets, is_whole = self._build(sizes, shard_lengths, max_missing)
      if is_whole:
        index_files.store(places, offsets)
    self._offsets = offsets
    self._lengths = self._lengths_of(offsets, sizes)

  def _fits(self, sizes: Sequence[int], offsets: np.ndarray) -> bool:
    """Tells whether a stored index is complete: records are consecutive."""
    return (
      offsets.shape == (self._ends[-1],)
      and offsets.dtype == np.int64
      and not (self._lengths_of(offsets, sizes) < 0).any()
    )

  def _lengths_of(
    self, offsets: np.ndarray, sizes: Sequence[int]
  ) -> np.ndarray:
    """Lengths of the records' data, int64 [n]; negative if missing."""
    following = np.append(offsets[1:], 0)
    following[self._ends[1:] - 1] = sizes
    return following - offsets - _HEADER_BYTES - _FOOTER_BYTES

  def read(self, shard: int, positions: np.ndarray) -> list[bytes]:
    """Reads records of a shard; see `ArrayRecordFiles.read`."""
    path = self._paths[shard]
    numbers = self._ends[shard] + positions
    offsets = self._offsets[numbers].tolist()
    lengths = self._lengths[numbers].tolist()
    places = list(zip(offsets, lengths, strict=True))

    def records() -> list[bytes]:
      try:
        with index_files.open_file(path) as file:
          return [_read_record(file, *place) for place in places]
      except EOFError as error:
        raise damaged(path, str(error)) from None

    try:
      return outages.outlast(path, records)
    except OSError as error:
      raise damaged(path, str(error)) from None

  def _build(
    self,
    sizes: Sequence[int],
    shard_lengths: Sequence[int],
    max_missing: int,
  ) -> tuple[np.ndarray, bool]:
    """Returns all records' offsets, int64 [n], and True if all are complete.

    The offset of a missing record is the end of its file.
    """
    _logger.info("Indexing %d TFRecord files.", len(self._paths))
    found = parallel.in_threads(
      _record_offsets,
      zip(self._paths, sizes, strict=True),
      num_threads=_THREADS,
    )
    offsets, is_whole = [], True
    for path, (begins, end), size, wanted in zip(
      self._paths, found, sizes, shard_lengths, strict=True
    ):
      missing = wanted - len(begins) + (end != size)
      if end != size and missing > max_missing:
        raise damaged(path, "its last record is cut off")
      if len(begins) > wanted or missing > max_missing:
        raise damaged(path, f"it has {len(begins)} records instead of {wanted}")
      is_whole &= not missing
      filling = np.full(wanted - len(begins), size, np.int64)
      offsets.append(np.concatenate([begins, filling]))
    return np.concatenate(offsets), is_whole


def _record_offsets(file: tuple[str, int]) -> tuple[np.ndarray, int]:
  """Finds the records of a file, given its path and size.

  Returns:
    int64 [n], the position of each record, and the end of the last.
  """
  path, size = file
  offsets, position = [], 0
  try:
    # If records are smaller than the buffer, one call reads many lengths.
    with io.BufferedReader(index_files.open_file(path)) as stream:
      while position < size:
        stream.seek(position)
        header = stream.read(_HEADER_BYTES)
        offsets.append(position)
        if len(header) < _HEADER_BYTES:
          position = size + _HEADER_BYTES
          break
        (length,) = _LENGTH.unpack_from(header)
        position += _HEADER_BYTES + length + _FOOTER_BYTES
  except OSError as error:
    raise damaged(path, str(error)) from None
  return np.array(offsets, np.int64), position


def _read_record(file: io.IOBase, offset: int, length: int) -> bytes:
  if length < 0:
    raise EOFError(f"it ends at byte {offset}, before the record")
  file.seek(offset)
  record = file.read(_HEADER_BYTES + length)
  if len(record) < _HEADER_BYTES + length:
    raise EOFError(f"the record at byte {offset} is cut off")
  if _LENGTH.unpack_from(record)[0] != length:
    raise EOFError(f"the record at byte {offset} is not as long as indexed")
  return record[_HEADER_BYTES:]


def _size(path: str) -> int:
  try:
    return buckets.status(path).size
  except OSError as error:
    raise damaged(path, str(error)) from None
