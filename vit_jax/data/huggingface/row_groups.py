"""Records of Parquet files by position, read in place.

Parquet is compressed by row groups, so reading a cell costs its whole group:
groups in use are kept in Arrow format, which suits an order that stays within a
few of them for a while.
"""

import collections
import concurrent.futures
import hashlib
import os
import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vit_jax.data import outages
from vit_jax.data.huggingface.arrow_tables import Chunk, Table, is_list
from vit_jax.errors import UserError


class RowGroups(Table):
  """Parquet files, read in place one row group at a time.

  Args:
    paths: Paths of the files.
    like: A file of the dataset; all files must have the types of its columns.
    columns: Columns to read.
    keep: Number of records in the most recently used row groups kept in memory;
      the newest group is kept regardless of its size.

  Raises:
    OSError, pa.ArrowInvalid: A file cannot be read.
    UserError: A file has no such column, or one of another type.
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
        future.set_result(self._read(number, self._columns))
      except BaseException as error:
        with self._lock:
          # Another thread may have evicted it and read it again.
          if self._chunks.get(number) is future:
            del self._chunks[number]
            self._kept -= int(self.lengths[number])
        future.set_exception(error)
    return future.result()

  def chunk_of(self, number: int, name: str) -> Chunk:
    return self._read(number, [name])  # Columns are stored separately.

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
    return np.array([], np.int64)  # That would require reading the row groups.

  def _check(self, name: str) -> None:
    """Raises UserError if a file's column differs from the dataset's."""
    for path, schema in self._schemas.items():
      if name not in schema.names:
        raise UserError(
          f"{path} has no column {name!r}, which is read of all files; fix it,"
          " or leave it out."
        )
      found, wanted = schema.field(name).type, self.schema.field(name).type
      if not _is_alike(found, wanted):
        raise UserError(
          f"The column {name!r} of {path} holds {found}, and that of"
          f" {self._like} {wanted}; write both with one type."
        )

  def _read(self, number: int, names: Sequence[str]) -> Chunk:
    file, group = self._groups[number]
    path, metadata = self._files[file]

    def read() -> pa.Table:
      if _state(path) != self._states[file]:
        raise UserError(f"{path} has changed since it was opened; start again.")
      return pq.ParquetFile(path, metadata=metadata).read_row_group(
        group, columns=list(names), use_threads=False
      )

    try:
      table = outages.outlast(path, read)
    except (OSError, pa.ArrowException) as error:
      reason = " ".join(str(error).split())[:200].rstrip(". ")
      raise UserError(
        f"{path}: row group {group} cannot be read ({reason}); copy the file"
        " again."
      ) from None
    columns = {}
    for name in names:
      column = table.column(name)
      columns[name] = (
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
      )
    return Chunk(columns)


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
  """Returns True if two column types are read alike; nulls fit any type."""
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
  """Size and modification time, which identify the content."""
  found = os.stat(path)
  return found.st_size, found.st_mtime_ns
