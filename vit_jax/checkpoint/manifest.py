"""Checksums of a checkpoint's files, written with it and checked before use.

Orbax silently restores an array file with a flipped bit. Before a step counts
as complete, a manifest is therefore put into its directory, with the size of
every file and a CRC-32 of every 16 MiB of it. A CRC-32 detects every flipped
bit and every burst of damage up to 32 bits, and anything else except in one
case in 2**32. It is the fastest checksum in the standard library, and threads
process the pieces in parallel.
"""

import errno
import json
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from etils import epath

from vit_jax import buckets

NAME = "manifest.json"
_PIECE_BYTES = 16 << 20
_MAX_THREADS = 16
# Errors of a file system for a file that is lost. Anything else, such as a
# permission error or a lost connection, may be resolved by the next start.
_UNREADABLE = {"EIO", "EISDIR", "ENOTDIR", "EUCLEAN", "EBADMSG"}


def write(directory: epath.PathLike) -> None:
  """Writes a manifest into a directory whose files are all complete."""
  directory = epath.Path(directory)
  files = {
    str(path.relative_to(directory)): path
    for path in buckets.files(directory)
    if path != directory / NAME
  }
  sizes = {name: buckets.status(path).size for name, path in files.items()}
  pieces = [(name, start) for name in files for start in _starts(sizes[name])]
  checksums: dict[str, list[int]] = {name: [] for name in files}
  with _threads() as threads:
    results = threads.map(lambda piece: _checksum(directory, *piece), pieces)
    for (name, _), checksum in zip(pieces, results, strict=True):
      checksums[name].append(checksum)
  content = {
    "piece_bytes": _PIECE_BYTES,
    "files": {
      name: {"bytes": sizes[name], "crc32": checksums[name]} for name in files
    },
  }
  (directory / NAME).write_text(_seal(content))


def damage(
  directory: epath.PathLike, *, share: tuple[int, int] = (0, 1)
) -> list[str]:
  """Lists the damage to a checkpoint's files; empty if there is none.

  Files that are not in the manifest are ignored.

  Args:
    directory: Directory of one step.
    share: (i, n) to check only every n-th piece from the i-th on, while other
      processes check the rest.

  Returns:
    A phrase for each file, such as "state/d/1f2e: 20 bytes instead of 35".

  Raises:
    Exception: A file cannot be reached, which says nothing about its contents;
      an OSError, or an error of a bucket's libraries.
  """
  directory = epath.Path(directory)
  try:
    content = _open_seal((directory / NAME).read_text())
  except OSError as error:
    return [f"{NAME}: {_as_damage(error)}"]
  except UnicodeDecodeError:
    content = None
  if content is None:
    return [f"{NAME}: not as it was written"]
  found, pieces = [], []
  for name, entry in content["files"].items():
    if ".." in name.split("/") or name.startswith("/"):
      found.append(f"{name}: lies outside the checkpoint")
      continue
    try:
      size = buckets.status(directory / name).size
    except OSError as error:
      found.append(f"{name}: {_as_damage(error)}")
      continue
    if size != entry["bytes"]:
      found.append(f"{name}: {size} bytes instead of {entry['bytes']}")
      continue
    pieces += zip(
      [name] * len(entry["crc32"]), _starts(size), entry["crc32"], strict=True
    )
  first, step = share
  with _threads() as threads:
    wrong = threads.map(
      lambda piece: _compare(directory, *piece), pieces[first::step]
    )
    found += filter(None, wrong)
  return found


def _compare(
  directory: epath.Path, name: str, start: int, wanted: int
) -> str | None:
  try:
    same = _checksum(directory, name, start) == wanted
  except OSError as error:
    return f"{name}: {_as_damage(error)}"
  if same:
    return None
  return f"{name}: not as it was written, within 16 MiB from byte {start}"


def _checksum(directory: epath.Path, name: str, start: int) -> int:
  with (directory / name).open("rb") as file:
    file.seek(start)
    return zlib.crc32(file.read(_PIECE_BYTES))


def _starts(size: int) -> range:
  return range(0, size, _PIECE_BYTES)


def _threads() -> ThreadPoolExecutor:
  return ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1))


def _seal(content: dict[str, Any]) -> str:
  """Returns the manifest's text, which includes a checksum of itself."""
  body = json.dumps(content, sort_keys=True)
  return json.dumps({"crc32": zlib.crc32(body.encode()), "content": content})


def _open_seal(text: str) -> dict[str, Any] | None:
  """Returns the content of a manifest, or None if it is itself damaged."""
  try:
    content = json.loads(text)["content"]
    return content if _seal(content) == text else None
  except (ValueError, KeyError, TypeError):
    return None


def _as_damage(error: OSError) -> str:
  """Describes the loss of a file; re-raises any other error."""
  if isinstance(error, FileNotFoundError):
    return "missing"
  if errno.errorcode.get(error.errno) not in _UNREADABLE:
    raise error
  return f"cannot be read ({error.strerror})"
