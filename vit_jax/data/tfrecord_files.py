"""Random access to the records of TFRecord files, by an index of offsets.

A TFRecord is the length of its data (uint64), a checksum of that (uint32), the
data and a checksum of the data (uint32). Where records begin is found once by
hopping from length to length, and cached beside the data, or in
$XDG_CACHE_HOME/vit_jax (~/.cache/vit_jax) where that cannot be written to.
"""

import concurrent.futures
import contextlib
import hashlib
import io
import logging
import os
import pathlib
import struct
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
from etils import epath

from vit_jax.data.array_record_files import damaged

_LENGTH = struct.Struct("<Q")
_HEADER_BYTES = 12
_FOOTER_BYTES = 4
_THREADS = 16

_logger = logging.getLogger(__name__)


class TFRecordFiles:
  """The shards of a split, opened for every call."""

  def __init__(
    self, paths: Sequence[epath.PathLike], shard_lengths: Sequence[int]
  ):
    """Loads the index, or builds it, which reads every record's length.

    Args:
      paths: the shards, all in one directory.
      shard_lengths: records in each of them.

    Raises:
      UserError: naming a file that is missing, cut off or damaged.
    """
    self._paths = [os.fspath(path) for path in paths]
    self._ends = np.cumsum([0, *shard_lengths])
    sizes = [_size(path) for path in self._paths]
    places = _index_places(self._paths, sizes)
    offsets = _load(places, sum(shard_lengths))
    if offsets is None:
      offsets = self._build(sizes, shard_lengths)
      _store(places, offsets)
    following = np.append(offsets[1:], 0)
    following[self._ends[1:] - 1] = sizes
    self._offsets = offsets
    self._lengths = following - offsets - _HEADER_BYTES - _FOOTER_BYTES

  def read(self, shard: int, positions: np.ndarray) -> list[bytes]:
    """Records of one shard.

    Args:
      shard: number of the shard.
      positions: int64 [n], positions in it.

    Raises:
      UserError: naming the file that cannot be read.
    """
    path = self._paths[shard]
    numbers = self._ends[shard] + positions
    offsets, lengths = self._offsets[numbers], self._lengths[numbers]
    try:
      with _open(path) as file:
        return [
          _read_record(file, offset, length)
          for offset, length in zip(
            offsets.tolist(), lengths.tolist(), strict=True
          )
        ]
    except (OSError, EOFError) as error:
      raise damaged(path, str(error)) from None

  def _build(
    self, sizes: Sequence[int], shard_lengths: Sequence[int]
  ) -> np.ndarray:
    """Offsets of all records, int64 [sum of shard_lengths]."""
    _logger.info("Indexing %d TFRecord files.", len(self._paths))
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
      offsets = list(pool.map(_record_offsets, self._paths, sizes))
    for path, found, wanted in zip(
      self._paths, offsets, shard_lengths, strict=True
    ):
      if len(found) != wanted:
        raise damaged(path, f"it has {len(found)} records instead of {wanted}")
    return np.concatenate(offsets)


def _record_offsets(path: str, size: int) -> np.ndarray:
  """Where each record of a file begins, int64 [n]."""
  offsets, position = [], 0
  try:
    with _open(path) as file:
      while position < size:
        file.seek(position)
        header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
          break
        offsets.append(position)
        (length,) = _LENGTH.unpack_from(header)
        position += _HEADER_BYTES + length + _FOOTER_BYTES
  except OSError as error:
    raise damaged(path, str(error)) from None
  if position != size:
    raise damaged(path, "its last record is cut off")
  return np.array(offsets, np.int64)


def _read_record(file: BinaryIO, offset: int, length: int) -> bytes:
  file.seek(offset)
  record = file.read(_HEADER_BYTES + length)
  if len(record) < _HEADER_BYTES + length:
    raise EOFError(f"the record at byte {offset} is cut off")
  if _LENGTH.unpack_from(record)[0] != length:
    raise EOFError(f"the record at byte {offset} is not as long as indexed")
  return record[_HEADER_BYTES:]


def _open(path: str) -> BinaryIO:
  if "://" in path:
    return epath.Path(path).open("rb")
  return open(path, "rb", buffering=0)


def _size(path: str) -> int:
  try:
    return epath.Path(path).stat().length
  except OSError as error:
    raise damaged(path, str(error)) from None


def _index_places(
  paths: Sequence[str], sizes: Sequence[int]
) -> list[epath.Path]:
  """Where the index of these files may be, best first."""
  first = epath.Path(paths[0])
  home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
  places = []
  # The place beside the data moves with them.
  for directory, names in (
    (first.parent, [os.path.basename(path) for path in paths]),
    (epath.Path(home) / "vit_jax", paths),
  ):
    identity = repr((list(names), list(sizes))).encode()
    key = hashlib.sha256(identity).hexdigest()[:16]
    split = first.name.split("-0")[0]
    places.append(directory / f"{split}.{key}.offsets.npy")
  return places


def _load(candidates: Sequence[epath.Path], count: int) -> np.ndarray | None:
  for path in candidates:
    try:
      offsets = np.load(io.BytesIO(path.read_bytes()))
    except (OSError, ValueError):
      continue
    if offsets.shape == (count,):
      return offsets
  return None


def _store(candidates: Sequence[epath.Path], offsets: np.ndarray) -> None:
  """Writes the index to the first place that can be written to."""
  content = io.BytesIO()
  np.save(content, offsets)
  for path in candidates:
    # A name of its own until it is whole: others may index at the same time.
    partial = path.parent / f"{path.name}.{os.urandom(4).hex()}"
    try:
      path.parent.mkdir(parents=True, exist_ok=True)
      partial.write_bytes(content.getvalue())
      partial.replace(path)
      return
    except OSError as error:
      _logger.info("No index at %s (%s).", path, error)
      with contextlib.suppress(OSError):
        partial.unlink(missing_ok=True)
