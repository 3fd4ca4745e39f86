"""Arrow files as memory-mapped tables, and messages about damaged files."""

import contextlib
import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from vit_jax import truncate
from vit_jax.errors import UserError


@contextlib.contextmanager
def errors(shown: str, directory: str | None) -> Iterator[None]:
  """Converts the library's many errors to messages.

  Args:
    shown: Name of the dataset.
    directory: Directory whose files are checked for damage; None for no check.

  Raises:
    UserError: Raised instead of any other error.
  """
  try:
    yield
  except UserError:
    raise
  except Exception as error:  # They differ by format.
    causes = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
      causes.append(cause)
    damaged = _damaged(directory) if directory else []
    if damaged:
      raise UserError(
        f"{shown}: {len(damaged)} of its files cannot be read:"
        f" {truncate.first(damaged, separator='; ')}. Copy them again."
      ) from error
    wants = [
      cause
      for cause in causes
      if isinstance(cause, (OSError, pa.ArrowException, ValueError))
    ]
    text = " ".join(str((wants or causes)[-1]).split())[:300].rstrip(". ")
    raise UserError(
      f"{shown} cannot be read ({text or type(error).__name__}); name another"
      " dataset or configuration, or fix that."
    ) from error


def _damaged(directory: str) -> list[str]:
  """Incomplete Arrow and Parquet files, with the reason for each."""
  found = []
  for root, _, files in os.walk(directory):
    for file in sorted(files):
      path = os.path.join(root, file)
      try:
        if file.endswith(".parquet"):
          pq.read_metadata(path)
        elif file.endswith(".arrow"):
          mapped(path)
      except Exception as error:
        reason = " ".join(str(error).split())[:120].rstrip(". ")
        found.append(f"{path} ({reason or type(error).__name__})")
  return found


def mapped(path: str) -> pa.Table:
  """The records of an Arrow file of either format, as a memory-mapped table."""
  size = os.path.getsize(path)
  if not size:
    raise OSError("it is empty")
  file = pa.memory_map(path)
  if file.read(6) == b"ARROW1":
    return pa.ipc.open_file(file).read_all()
  file.seek(0)
  reader = pa.ipc.open_stream(file)
  batches, count = [], 0
  try:
    for batch in reader:
      batches.append(batch)
      count += len(batch)
  except (OSError, pa.ArrowException):
    raise OSError(f"it is cut off after {count} examples") from None
  # A stream that ends between two of its parts looks complete.
  file.seek(size - 8)
  if file.read(8) != b"\xff\xff\xff\xff\0\0\0\0":
    raise OSError(f"it is cut off after {count} examples")
  return pa.Table.from_batches(batches, reader.schema)


def of_directory(directory: str) -> list[str]:
  """Lists the Arrow files below a directory."""
  return [
    os.path.join(root, file)
    for root, _, files in os.walk(directory)
    for file in sorted(files)
    if file.endswith(".arrow")
  ]
