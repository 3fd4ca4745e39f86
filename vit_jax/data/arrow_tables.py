"""Records of Arrow and Parquet files by their position, a cell at a time.

Arrow tables are memory mapped: a cell is copied out of the page cache when it
is read, and processes share the pages. Parquet is compressed by row groups, so
that a cell costs its whole group: those in use are kept, in Arrow's form, and
suit an order that stays within a few of them for a while.
"""

import abc
import collections
import concurrent.futures
import hashlib
import os
import posixpath
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vit_jax.errors import UserError

_OFFSETS = {
  pa.binary(): np.int32,
  pa.string(): np.int32,
  pa.large_binary(): np.int64,
  pa.large_string(): np.int64,
}


class Strings:
  """Bytes or texts of an Arrow array, each copied once when it is read."""

  def __init__(self, array: pa.Array):
    _, offsets, data = array.buffers()
    dtype = np.dtype(_OFFSETS[array.type])
    start = array.offset * dtype.itemsize
    count = len(array) + 1 if offsets is not None else 0
    self.offsets = np.frombuffer(offsets or b"", dtype, count, start)
    self._data = memoryview(data) if data is not None else memoryview(b"")
    self._array = array

  def __getitem__(self, place: int) -> bytes | None:
    """The bytes at a place; None: it is null."""
    if self._array.null_count and not self._array[place].is_valid:
      return None
    start, stop = self.offsets[place : place + 2]
    return bytes(self._data[start:stop])

  def is_null(self) -> np.ndarray:
    """bool [n]."""
    return self._array.is_null().to_numpy(zero_copy_only=False)

  def sizes(self) -> np.ndarray:
    """Bytes of each, int64 [n]."""
    return np.diff(self.offsets).astype(np.int64)


class Chunk:
  """Some consecutive records of a table: its columns as arrays."""

  def __init__(self, columns: Mapping[str, pa.Array]):
    self._columns = columns
    self._strings: dict[tuple[str, ...], Strings] = {}

  def cell(self, name: str, place: int) -> Any:
    """The value of a cell as Python has it."""
    return self._columns[name][place].as_py()

  def image(self, name: str, place: int) -> tuple[bytes | None, str | None]:
    """Content and path of an image, of which either may be None."""
    content, path = self._image_parts(name)
    data = content[place] if content else None
    named = path[place] if path else None
    return data, named.decode("utf-8", "replace") if named else None

  def has_no_image(self, name: str) -> np.ndarray:
    """bool [n], True where a cell has neither content nor path."""
    array = self._columns[name]
    parts = [part for part in self._image_parts(name) if part]
    found = array.is_null().to_numpy(zero_copy_only=False)
    return found | np.logical_and.reduce([part.is_null() for part in parts])

  def update(self, digest: Any, name: str) -> None:
    """Adds what tells a column's content from another's to a digest.

    That is the sizes of its cells, and the names of files that lie elsewhere.
    """
    if self._is_image(name):
      content, path = self._image_parts(name)
      if content:
        digest.update(content.sizes().tobytes())
      if path and (not content or content.is_null().any()):
        for place in range(len(self._columns[name])):
          base = posixpath.basename(path[place] or b"")
          digest.update(base + b"\0")
      return
    array = self._columns[name]
    if is_list(array.type):
      lengths = pc.list_value_length(array)
      digest.update(lengths.to_numpy(zero_copy_only=False).tobytes())
      array = array.flatten()
    digest.update(Strings(array).sizes().tobytes())

  def _is_image(self, name: str) -> bool:
    kind = self._columns[name].type
    return pa.types.is_struct(kind) or kind in (pa.binary(), pa.large_binary())

  def _image_parts(self, name: str) -> tuple[Strings | None, Strings | None]:
    array = self._columns[name]
    if not pa.types.is_struct(array.type):
      return self._part(name), None
    fields = {field.name for field in array.type}
    return (
      self._part(name, "bytes") if "bytes" in fields else None,
      self._part(name, "path") if "path" in fields else None,
    )

  def _part(self, *key: str) -> Strings | None:
    if key not in self._strings:
      array = self._columns[key[0]]
      if len(key) > 1:
        array = array.field(key[1])
      if pa.types.is_null(array.type):  # A column of nothing but nulls.
        array = array.cast(pa.binary())
      self._strings[key] = Strings(array)
    return self._strings[key]


class Table(abc.ABC):
  """Records in chunks; may be read from several threads at once.

  Attributes:
    schema: Names and types of the columns.
    lengths: int64 [chunks], the records of each.
  """

  schema: pa.Schema
  lengths: np.ndarray

  @property
  def num_rows(self) -> int:
    return int(self.lengths.sum())

  @abc.abstractmethod
  def chunk(self, number: int) -> Chunk:
    """The columns of a chunk that were asked for."""

  @abc.abstractmethod
  def column(self, name: str) -> pa.ChunkedArray:
    """A whole column, for those of few bytes a record."""

  @abc.abstractmethod
  def digest(self, names: Sequence[str]) -> str:
    """A hash that changes with the content of columns, by all likelihood."""

  @abc.abstractmethod
  def without_image(self, name: str) -> np.ndarray:
    """Positions without an image, int64, as far as they are known."""

  def located(self, positions: np.ndarray) -> Iterator[tuple[Chunk, int]]:
    """The chunk of each position and the place in it, in their order."""
    ends = np.cumsum(self.lengths)
    numbers = np.searchsorted(ends, positions, side="right")
    places = positions - (ends - self.lengths)[numbers]
    for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
      yield self.chunk(number), place


class Mapped(Table):
  """A memory-mapped Arrow table."""

  def __init__(self, table: pa.Table):
    self.schema = table.schema
    self._table = table
    self._batches = table.to_batches()
    self.lengths = np.array([len(batch) for batch in self._batches], np.int64)
    self._chunks: dict[int, Chunk] = {}

  def chunk(self, number: int) -> Chunk:
    # Two threads may make the same, of which either will do.
    if number not in self._chunks:
      batch = self._batches[number]
      names = self.schema.names
      self._chunks[number] = Chunk(dict(zip(names, batch.columns, strict=True)))
    return self._chunks[number]

  def column(self, name: str) -> pa.ChunkedArray:
    return self._table.column(name)

  def digest(self, names: Sequence[str]) -> str:
    found = hashlib.sha256()
    # Column by column: the same records in other chunks have one digest.
    for name in names:
      for number in range(len(self._batches)):
        self.chunk(number).update(found, name)
    return found.hexdigest()

  def without_image(self, name: str) -> np.ndarray:
    found = [
      self.chunk(number).has_no_image(name)
      for number in range(len(self._batches))
    ]
    return np.flatnonzero(np.concatenate(found)) if found else np.array([], int)


class RowGroups(Table):
  """Parquet files, read in place a row group at a time.

  Args:
    paths: The files.
    like: One of the dataset, whose types of columns all must have.
    columns: Columns that are read.
    keep: Records whose row groups stay in memory, those used last; the newest
      stays whatever its size.

  Raises:
    OSError, pa.ArrowInvalid: A file cannot be read.
    UserError: A file lacks a column, or has it with another type.
  """

  def __init__(
    self, paths: Sequence[str], like: str, columns: Sequence[str], keep: int
  ):
    self._states = [_state(path) for path in paths]
    self._files = [(path, pq.read_metadata(path)) for path in paths]
    self._like = like
    self.schema = pq.read_metadata(like).schema.to_arrow_schema()
    self._schemas = {like: self.schema} | {
      path: metadata.schema.to_arrow_schema() for path, metadata in self._files
    }
    for name in columns:
      self._check(name)
    self._groups = [
      (file, number)
      for file, (_, metadata) in enumerate(self._files)
      for number in range(metadata.num_row_groups)
    ]
    self.lengths = np.array(
      [self._files[file][1].row_group(n).num_rows for file, n in self._groups],
      np.int64,
    )
    self._columns = list(columns)
    self._keep = keep
    self._kept = 0
    self._chunks: collections.OrderedDict[int, concurrent.futures.Future] = (
      collections.OrderedDict()
    )
    self._lock = threading.Lock()

  def chunk(self, number: int) -> Chunk:
    with self._lock:
      future = self._chunks.get(number)
      is_new = future is None
      if is_new:
        future = self._chunks[number] = concurrent.futures.Future()
        self._kept += int(self.lengths[number])
        while self._kept > self._keep and len(self._chunks) > 1:
          oldest, _ = self._chunks.popitem(last=False)
          self._kept -= int(self.lengths[oldest])
      else:
        self._chunks.move_to_end(number)
    if is_new:
      try:
        future.set_result(self._read(number))
      except BaseException as error:
        with self._lock:
          # Another may have put out this one, and read it again.
          if self._chunks.get(number) is future:
            del self._chunks[number]
            self._kept -= int(self.lengths[number])
        future.set_exception(error)
    return future.result()

  def column(self, name: str) -> pa.ChunkedArray:
    self._check(name)
    parts = [
      pq.ParquetFile(path, metadata=metadata)
      .read([name])
      .column(name)
      .cast(self.schema.field(name).type)
      for path, metadata in self._files
    ]
    return pa.chunked_array(chunk for part in parts for chunk in part.chunks)

  def digest(self, names: Sequence[str]) -> str:
    found = hashlib.sha256()
    for file, number in self._groups:
      group = self._files[file][1].row_group(number)
      for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema.split(".")[0] in names:
          sizes = column.total_compressed_size, column.total_uncompressed_size
          known = column.statistics
          bounds = (known.min, known.max) if known and known.has_min_max else ()
          found.update(repr((group.num_rows, *sizes, *bounds)).encode())
    return found.hexdigest()

  def without_image(self, name: str) -> np.ndarray:
    return np.array([], np.int64)  # Their row groups would have to be read.

  def _check(self, name: str) -> None:
    """Raises UserError if a file's column is not that of the dataset."""
    for path, schema in self._schemas.items():
      if name not in schema.names:
        raise UserError(
          f"{path} has no column {name!r}, which is read of all files; mend it,"
          " or leave it out."
        )
      found, wanted = schema.field(name).type, self.schema.field(name).type
      if not _is_alike(found, wanted):
        raise UserError(
          f"The column {name!r} of {path} holds {found}, and that of"
          f" {self._like} {wanted}; write both with one type."
        )

  def _read(self, number: int) -> Chunk:
    file, group = self._groups[number]
    path, metadata = self._files[file]
    try:
      if _state(path) != self._states[file]:
        raise UserError(f"{path} has changed since it was opened; start again.")
      table = pq.ParquetFile(path, metadata=metadata).read_row_group(
        group, columns=self._columns, use_threads=False
      )
    except (OSError, pa.ArrowException) as error:
      reason = " ".join(str(error).split())[:200].rstrip(". ")
      raise UserError(
        f"{path}: row group {group} cannot be read ({reason}); copy the file"
        " again."
      ) from None
    columns = {}
    for name in self._columns:
      column = table.column(name)
      columns[name] = (
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
      )
    return Chunk(columns)


def is_list(kind: pa.DataType) -> bool:
  """Returns True if cells are lists, be they of one length or of any."""
  return (
    pa.types.is_list(kind)
    or pa.types.is_large_list(kind)
    or pa.types.is_fixed_size_list(kind)
  )


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
  """Returns True if columns of two types are read alike; nulls fit any."""
  if pa.types.is_null(one) or pa.types.is_null(other):
    return True
  kinds = {one, other}
  if kinds <= {pa.string(), pa.large_string()}:
    return True
  if kinds <= {pa.binary(), pa.large_binary()}:
    return True
  if all(map(pa.types.is_struct, kinds)):
    fields = [{field.name: field.type for field in kind} for kind in kinds]
    return all(
      _is_alike(fields[0][name], fields[-1][name])
      for name in fields[0].keys() & fields[-1].keys()
    )
  if all(map(is_list, kinds)):
    return _is_alike(one.value_type, other.value_type)
  return one == other


def _state(path: str) -> tuple[int, int]:
  """Size and time of change, which another content has not."""
  found = os.stat(path)
  return found.st_size, found.st_mtime_ns
