"""Files of an index: embeddings and the images that they are of.

A shard NUMBER is NUMBER.npy, float32 [n, e], which is mapped into memory, and
NUMBER.json, which names the image of each row and seals the first: it is
written last, with a checksum. A shard never changes; another number takes its
place. So whatever is interrupted, every sealed shard is whole.
"""

import dataclasses
import json
import os
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from etils import epath
from jaxtyping import Float

from vit_jax import records

_PIECE_BYTES = 16 << 20


class Stamp(NamedTuple):
  """Size and time of a file, which tell that it has changed."""

  size: int  # Bytes.
  mtime_ns: int


class Entry(NamedTuple):
  """An image file as it was when it was read.

  Attributes:
    path: Below the folder of images.
    stamp: Its size and time.
    problem: Sentence on why there is no embedding; None: there is one.
  """

  path: str
  stamp: Stamp
  problem: str | None = None


@dataclasses.dataclass(frozen=True)
class Shard:
  """A part of an index.

  Attributes:
    number: Name of its files.
    entries: Images of the rows.
    unreadable: Files that are no images.
    embeddings: A mapped file.
  """

  number: int
  entries: Sequence[Entry]
  unreadable: Sequence[Entry]
  embeddings: Float[np.ndarray, "n e"]


class DamagedError(Exception):
  """A shard is not as it was written."""


def numbers(directory: epath.Path) -> list[int]:
  """Lists the sealed shards of a directory, in order."""
  found = [path.stem for path in directory.glob("*.json")]
  return sorted(int(stem) for stem in found if stem.isdecimal())


def write(
  directory: epath.Path,
  number: int,
  entries: Sequence[Entry],
  unreadable: Sequence[Entry],
  embeddings: Float[np.ndarray, "n e"],
) -> None:
  """Writes a shard; raises OSError if that fails."""
  rows, seal = _paths(directory, number)
  with records.replacing(rows) as partial:
    with open(partial, "wb") as file:
      np.save(file, np.ascontiguousarray(embeddings, np.float32))
      file.flush()
      os.fsync(file.fileno())
    checksum = _checksum(partial)
  content = {
    "crc32": checksum,
    "images": [_plain(entry) for entry in entries],
    "unreadable": [[*_plain(entry), entry.problem] for entry in unreadable],
  }
  # In one line: an index has as many entries as there are images.
  records.write_text(seal, json.dumps(content) + "\n")


def read(directory: epath.Path, number: int) -> Shard:
  """Reads a shard and compares its checksum.

  Raises:
    DamagedError: It is not as it was written.
  """
  rows, seal = _paths(directory, number)
  try:
    content = json.loads(seal.read_text())
    if _checksum(rows) != content["crc32"]:
      raise DamagedError(f"{rows} has other bytes than were written")
    entries = [_entry(*fields) for fields in content["images"]]
    unreadable = [_entry(*fields) for fields in content["unreadable"]]
    embeddings = np.load(rows, mmap_mode="r")
  except FileNotFoundError as error:
    raise DamagedError(f"{error.filename} is missing") from None
  except OSError as error:
    raise DamagedError(
      f"{rows} cannot be read ({error.strerror or error})"
    ) from None
  except (ValueError, TypeError, KeyError) as error:
    raise DamagedError(f"{seal} is damaged ({error})") from None
  if embeddings.ndim != 2 or len(embeddings) != len(entries):
    raise DamagedError(f"{seal} names other images than {rows.name} holds")
  return Shard(number, entries, unreadable, embeddings)


def read_all(
  directory: epath.Path,
) -> tuple[list[Shard], dict[int, DamagedError]]:
  """Reads the whole shards, in order, and finds the damaged ones."""
  found, damaged = [], {}
  for number in numbers(directory):
    try:
      found.append(read(directory, number))
    except DamagedError as error:
      damaged[number] = error
  return found, damaged


def remove(directory: epath.Path, number: int) -> None:
  """Removes a shard; raises OSError if that fails."""
  rows, seal = _paths(directory, number)
  seal.unlink(missing_ok=True)
  rows.unlink(missing_ok=True)


def _paths(directory: epath.Path, number: int) -> tuple[epath.Path, epath.Path]:
  return directory / f"{number:06d}.npy", directory / f"{number:06d}.json"


def _plain(entry: Entry) -> list[str | int]:
  return [entry.path, entry.stamp.size, entry.stamp.mtime_ns]


def _entry(
  path: str, size: int, mtime_ns: int, problem: str | None = None
) -> Entry:
  return Entry(path, Stamp(size, mtime_ns), problem)


def _checksum(path: epath.PathLike) -> int:
  checksum = 0
  with open(path, "rb", buffering=0) as file:
    while piece := file.read(_PIECE_BYTES):
      checksum = zlib.crc32(piece, checksum)
  return checksum
