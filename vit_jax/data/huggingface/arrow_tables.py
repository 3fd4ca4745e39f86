"""Records of Arrow tables by position, one cell at a time.

Tables are memory mapped: a cell is copied from the page cache when it is read,
and processes share the pages. `row_groups` has the tables of Parquet files.
"""

import abc
import hashlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vit_jax.data import caption_lists

_OFFSETS = {
  pa.binary(): np.int32,
  pa.string(): np.int32,
  pa.large_binary(): np.int64,
  pa.large_string(): np.int64,
}


class Strings:
  """Bytes or texts of an Arrow array, each copied once when read."""

  def __init__(self, array: pa.Array):
    _, offsets, data = array.buffers()
    dtype = np.dtype(_OFFSETS[array.type])
    start = array.offset * dtype.itemsize
    count = len(array) + 1 if offsets is not None else 0
    self.offsets = np.frombuffer(offsets or b"", dtype, count, start)
    self._data = memoryview(data) if data is not None else memoryview(b"")
    self._array = array

  def __getitem__(self, place: int) -> bytes | None:
    """The bytes at a place; None if null."""
    if self._array.null_count and not self._array[place].is_valid:
      return None
    start, stop = self.offsets[place : place + 2]
    return bytes(self._data[start:stop])

  def is_null(self) -> np.ndarray:
    """Tells which are null, bool [n]."""
    return self._array.is_null().to_numpy(zero_copy_only=False)

  def sizes(self) -> np.ndarray:
    """Number of bytes of each, int64 [n]."""
    return np.diff(self.offsets).astype(np.int64)


class Chunk:
  """Consecutive records of a table, with columns as arrays."""

  def __init__(self, columns: Mapping[str, pa.Array]):
    self._columns = columns
    self._strings: dict[tuple[str, ...], Strings] = {}

  def cell(self, name: str, place: int) -> Any:
    """The value of a cell as a Python object."""
    return self._columns[name][place].as_py()

  def image(self, name: str, place: int) -> tuple[bytes | None, str | None]:
    """Content and path of an image; either may be None."""
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

  def has_no_text(self, name: str) -> np.ndarray:
    """bool [n], True where a cell has no text but whitespace; see `is_list`."""
    array, lengths = self._columns[name], None
    if is_list(array.type):
      lengths = pc.fill_null(pc.list_value_length(array), 0)
      array = array.flatten()
    if array.type not in _OFFSETS:  # Only nulls, or categories.
      array = array.cast(pa.string())
    empty = pc.equal(pc.binary_length(array), 0)
    blank = pc.fill_null(pc.or_(empty, pc.utf8_is_space(array)), True)
    found = blank.to_numpy(zero_copy_only=False)
    if lengths is None:
      return found
    counts = np.concatenate([[0], np.cumsum(~found)])
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.diff(counts[ends], prepend=0) == 0

  def update(self, digest: Any, name: str) -> None:
    """Adds data that identify a column's content to a digest.

    These are the sizes of its cells and the names of external files.
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
      if pa.types.is_null(array.type):  # A column of nulls only.
        array = array.cast(pa.binary())
      self._strings[key] = Strings(array)
    return self._strings[key]


class Table(abc.ABC):
  """Records in chunks; can be read from several threads at once.

  Attributes:
    schema: Names and types of the columns.
    lengths: int64 [chunks], the number of records in each.
  """

  schema: pa.Schema
  lengths: np.ndarray

  @property
  def num_rows(self) -> int:
    return int(self.lengths.sum())

  @abc.abstractmethod
  def chunk(self, number: int) -> Chunk:
    """The requested columns of a chunk."""

  def chunk_of(self, number: int, name: str) -> Chunk:
    """A chunk for reading one column; it may omit the others."""
    del name
    return self.chunk(number)

  @abc.abstractmethod
  def column(self, name: str) -> pa.ChunkedArray:
    """A whole column, for columns with few bytes per record."""

  @abc.abstractmethod
  def digest(self, names: Sequence[str]) -> str:
    """A hash that very likely changes with the content of the columns."""

  @abc.abstractmethod
  def without_image(self, name: str) -> np.ndarray:
    """Positions known to be without an image, int64."""

  def without_text(self, name: str) -> dict[int, str]:
    """Positions without a usable caption, and the reason for each.

    Raises:
      pa.ArrowInvalid: A text is not UTF-8.
    """
    found, first = {}, 0
    for number, length in enumerate(self.lengths.tolist()):
      chunk = self.chunk_of(number, name)
      for place in np.flatnonzero(chunk.has_no_text(name)).tolist():
        _, reason = caption_lists.usable(chunk.cell(name, place))
        found[first + place] = reason
      first += length
    return found

  def located(self, positions: np.ndarray) -> Iterator[tuple[Chunk, int]]:
    """The chunk of each position and its place there, in the given order."""
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
    # Two threads may create the same chunk; either can be used.
    if number not in self._chunks:
      batch = self._batches[number]
      names = self.schema.names
      self._chunks[number] = Chunk(dict(zip(names, batch.columns, strict=True)))
    return self._chunks[number]

  def column(self, name: str) -> pa.ChunkedArray:
    return self._table.column(name)

  def digest(self, names: Sequence[str]) -> str:
    found = hashlib.sha256()
    # Column by column, so that the digest does not depend on chunks.
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


def is_list(kind: pa.DataType) -> bool:
  """Returns True if cells are lists, of fixed or variable length."""
  return (
    pa.types.is_list(kind)
    or pa.types.is_large_list(kind)
    or pa.types.is_fixed_size_list(kind)
  )
