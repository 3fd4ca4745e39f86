"""Checksums of a dataset's files, written beside them when they are made."""

import concurrent.futures
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping

from etils import epath

from vit_jax import records, truncate
from vit_jax.errors import UserError

FILE = "checksums.json"
_CHUNK = 1 << 22
_THREADS = 4


@dataclasses.dataclass(frozen=True)
class Checksum:
  """Size of a file, bytes, and its SHA-256, hexadecimal."""

  size: int
  sha256: str


def of_new_file(path: epath.PathLike) -> Checksum:
  """Like `of_file`; the file is then on the disk, not only in its cache."""
  with open(path, "rb", buffering=0) as file:
    os.fsync(file.fileno())
  return of_file(path)


def of_file(path: epath.PathLike) -> Checksum:
  """Reads a file.

  Raises:
    OSError: it cannot be read.
  """
  digest, size = hashlib.sha256(), 0
  with open(path, "rb", buffering=0) as file:
    while chunk := file.read(_CHUNK):
      digest.update(chunk)
      size += len(chunk)
  return Checksum(size, digest.hexdigest())


def write(directory: epath.Path, files: Mapping[str, Checksum]) -> None:
  """Writes the checksums of files in a directory."""
  content = {name: dataclasses.asdict(c) for name, c in sorted(files.items())}
  records.write_json(directory / FILE, {"sha256": content})


def read(directory: epath.Path) -> dict[str, Checksum] | None:
  """File name -> checksum; None where none were written.

  Raises:
    UserError: the file of checksums is damaged, or names other directories.
  """
  path = directory / FILE
  if not path.exists():
    return None
  try:
    content = json.loads(path.read_text())["sha256"]
    found = {name: Checksum(**value) for name, value in content.items()}
  except (ValueError, TypeError, KeyError, AttributeError) as error:
    raise UserError(
      f"{path} is damaged ({type(error).__name__}: {error}); prepare the"
      " dataset again."
    ) from None
  for name in found:
    if os.path.basename(name) != name:
      raise UserError(f"{path} names {name!r}, which is not beside it.")
  return found


def verify(
  directory: epath.Path,
  files: Mapping[str, Checksum],
  show: Callable[[str, int, int], None],
) -> None:
  """Reads files and compares their checksums.

  Args:
    directory: where they are.
    files: name -> what it should have.
    show: told now and then of how many files are done out of how many.

  Raises:
    UserError: naming those that differ or cannot be read.
  """
  problems = []

  def problem(name: str) -> str | None:
    try:
      found = of_file(directory / name)
    except OSError as error:
      return f"{name} ({error.strerror})"
    if found.size != files[name].size:
      return f"{name} ({found.size} bytes instead of {files[name].size})"
    return None if found == files[name] else f"{name} (other bytes)"

  with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
    for number, text in enumerate(pool.map(problem, sorted(files)), start=1):
      if text:
        problems.append(text)
      show("files", number, len(files))
  if problems:
    raise UserError(
      f"{len(problems)} of {len(files)} files in {directory} are not as they"
      f" were written: {truncate.first(problems)}. Copy them"
      " again from where they are whole. Or, if the dataset was made by prepare"
      " --from, remove them and run that command again; if not, remove the"
      " directory and prepare it again."
    )
