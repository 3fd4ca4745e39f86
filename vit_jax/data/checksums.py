"""Checksums of a dataset's files, written next to them when they are created.

TFDS stores checksums of downloads only, and ArrayRecord's own checksums cover
neither padding nor missing files.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping

from etils import epath

from vit_jax import records, truncate
from vit_jax.data import parallel
from vit_jax.errors import UserError

FILE = "checksums.json"
_THREADS = 4


@dataclasses.dataclass(frozen=True)
class Checksum:
  """Size of a file in bytes, and its SHA-256, hexadecimal."""

  size: int
  sha256: str


def of_new_file(path: epath.PathLike) -> Checksum:
  """Like `of_file`, and makes the disk store its cached data."""
  with open(path, "rb", buffering=0) as file:
    os.fsync(file.fileno())
  return of_file(path)


def of_file(path: epath.PathLike) -> Checksum:
  """Reads a file; raises OSError if that fails."""
  with open(path, "rb", buffering=0) as file:
    digest = hashlib.file_digest(file, "sha256")
    return Checksum(file.tell(), digest.hexdigest())


def write(directory: epath.Path, files: Mapping[str, Checksum]) -> None:
  """Writes the checksums of files in a directory."""
  content = {name: dataclasses.asdict(c) for name, c in sorted(files.items())}
  records.write_json(directory / FILE, {"sha256": content})


def read(directory: epath.Path) -> dict[str, Checksum] | None:
  """Maps file names to checksums; None if none were written.

  Raises:
    UserError: The file of checksums is damaged, or names other directories.
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
      raise UserError(f"{path} names {name!r}, which is not in its folder.")
  return found


def verify(
  directory: epath.Path,
  files: Mapping[str, Checksum],
  show: Callable[[str, int, int], None],
) -> None:
  """Reads files of a directory and compares their checksums.

  `show` is called with "files", the number of files read and the total.

  Raises:
    UserError: Files differ or cannot be read; the message names them.
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

  results = parallel.in_threads(problem, sorted(files), num_threads=_THREADS)
  for number, text in enumerate(results, start=1):
    if text:
      problems.append(text)
    show("files", number, len(files))
  if problems:
    raise UserError(
      f"{len(problems)} of {len(files)} files in {directory} are not as they"
      f" were written: {truncate.first(problems)}. Copy them again from where"
      " they are whole. Or, if the dataset was made by prepare --from, remove"
      " them and run that command again; if not, remove the directory and"
      " prepare it again."
    )
