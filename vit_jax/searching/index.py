"""An index of a folder of images: what is in it, and how it is kept so.

  INDEX/index.json      the folder, the checkpoint and its fingerprint
  INDEX/000000.npy      embeddings, float32, one row an image
  INDEX/000000.json     paths, sizes and times of these images

`update` makes the index fit the folder: it embeds what is new or has changed
and drops what is gone. It may be killed at any time and then loses the shard it
was at; the next one continues from there.
"""

import dataclasses
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from etils import epath
from jaxtyping import Float

from vit_jax import records
from vit_jax.errors import UserError
from vit_jax.printable import on_one_line
from vit_jax.rundir import workdir_lock
from vit_jax.searching import nearest, photos, shards
from vit_jax.searching.shards import Entry, Shard, Stamp

if TYPE_CHECKING:
  from vit_jax.data.image_files import ImageFile

FILE = "index.json"
# A killed update embeds so many images again, at most.
SHARD_SIZE = 512
# Shards that are less than half full, as small changes of the folder leave
# them; beyond so many they are merged.
MAX_PARTIAL = 16
_FORMAT = 1

Embed = Callable[
  [Sequence[str]], Iterable[tuple["ImageFile", np.ndarray | None]]
]

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Source:
  """The images and the checkpoint of an index.

  Attributes:
    images: The folder, from the root.
    checkpoint: Path of the checkpoint, from the root where it is a path.
    step: Its number of updates; None for a published file.
    fingerprint: Digest of all that the embeddings depend on.
  """

  images: str
  checkpoint: str
  step: int | None
  fingerprint: str


@dataclasses.dataclass(frozen=True)
class Hit:
  """An image that was found.

  Attributes:
    path: Path of its file.
    score: Cosine of its embedding and the query's.
  """

  path: str
  score: float


@dataclasses.dataclass(frozen=True)
class Index:
  """An index as it was read; the files of its shards stay mapped.

  Attributes:
    directory: Where it lies.
    source: What it is of.
    shards: Its parts, in order.
    unopened: Files that could not be opened when it was updated, which is not
      kept: they may be opened one day without a change.
  """

  directory: str
  source: Source
  shards: Sequence[Shard]
  unopened: Sequence[Entry] = ()

  @property
  def num_images(self) -> int:
    """Number of images with an embedding."""
    return sum(len(shard.entries) for shard in self.shards)

  @property
  def unreadable(self) -> list[Entry]:
    """Files that are no images or not opened, in order of their paths."""
    entries = [entry for shard in self.shards for entry in shard.unreadable]
    return sorted([*entries, *self.unopened], key=lambda entry: entry.path)

  def search(
    self, queries: Float[np.ndarray, "q e"], count: int
  ) -> list[list[Hit]]:
    """Finds the images nearest to each query, exactly.

    Args:
      queries: Embeddings of unit length.
      count: Number of images found for each.
    """
    parts = [shard for shard in self.shards if shard.entries]
    found = nearest.largest(queries, [s.embeddings for s in parts], count)
    starts = np.cumsum([0, *(len(shard.entries) for shard in parts)])
    hits = []
    for scores, rows in found:
      places = np.searchsorted(starts, rows, side="right") - 1
      entries = [
        parts[place].entries[row - starts[place]]
        for place, row in zip(places, rows, strict=True)
      ]
      hits.append(
        [
          Hit(os.path.join(self.source.images, entry.path), float(score))
          for entry, score in zip(entries, scores, strict=True)
        ]
      )
    return hits


def source_of(directory: str) -> Source | None:
  """Reads what an index is of; None: nothing lies there.

  Raises:
    UserError: The directory holds something else, or the file is damaged.
  """
  if "://" in directory:
    raise UserError(
      f"--index={directory} is not on a local disk; its files are mapped into"
      " memory, so give a directory of this machine."
    )
  place = epath.Path(directory)
  file = place / FILE
  try:
    content = json.loads(file.read_text())
    if content.pop("format") != _FORMAT:
      raise UserError(
        f"{file} is of another version of vit_jax; remove {directory}, or name"
        " another --index."
      )
    return Source(**content)
  except (FileNotFoundError, NotADirectoryError):
    if _is_free(place):
      return None
    raise UserError(
      f"--index={directory} is not an index, but holds other files; name a"
      " directory that is empty or does not exist."
    ) from None
  except OSError as error:
    raise UserError(
      f"{file} cannot be read ({error.strerror or error})."
    ) from None
  except (ValueError, TypeError, KeyError, AttributeError):
    raise UserError(
      f"{file} is damaged; remove {directory} to have it made again, or name"
      " another --index."
    ) from None


def check(found: Source, wanted: Source, directory: str) -> None:
  """Compares what an index is of with what it is wanted of.

  Raises:
    UserError: Its embeddings are another checkpoint's, or it is of another
      folder.
  """
  if found.fingerprint != wanted.fingerprint:
    raise UserError(
      f"{directory} was made with {_named(found)}, whose embeddings cannot be"
      f" compared with those of {_named(wanted)}. Give that checkpoint, name"
      f" another --index, or remove {directory} to have it made again."
    )
  if found.images != wanted.images:
    raise UserError(
      f"{directory} is an index of {found.images}, not of {wanted.images}; name"
      f" another --index. If the folder has moved, change its path in"
      f" {os.path.join(directory, FILE)}: nothing is embedded again."
    )


def load(directory: str, source: Source) -> Index:
  """Reads an index as it is; damaged shards are named and left out."""
  place = epath.Path(directory)
  found = []
  for number in shards.numbers(place):
    try:
      found.append(shards.read(place, number))
    except shards.DamagedError as error:
      _logger.warning(
        "%s; its images are left out until the next update.", error
      )
  return Index(directory, source, found)


def update(
  directory: str, source: Source, embed: Embed, *, shard_size: int = SHARD_SIZE
) -> Index:
  """Makes an index fit its folder, from nothing or from what there is.

  Args:
    directory: Where it lies; made if it does not exist.
    source: What it is of, as `check` found it.
    embed: Gives each of the files, in order, with its embedding.
    shard_size: Images of a shard; a multiple of the size of a batch, so that
      batches are the same wherever an update is continued.

  Raises:
    UserError: The folder holds no images, the index cannot be written, or
      another process writes it.
  """
  files = photos.scan(source.images)
  try:
    return _update(epath.Path(directory), source, files, embed, shard_size)
  except OSError as error:
    raise UserError(
      f"The index {directory} cannot be written"
      f" ({error.strerror or error}); give another --index, or search what"
      " there is by --noupdate."
    ) from None


def _update(
  place: epath.Path,
  source: Source,
  files: dict[str, Stamp],
  embed: Embed,
  shard_size: int,
) -> Index:
  # Most of the time nothing has changed, and an index that nobody may write to
  # serves as well.
  index, is_clean = _read(place)
  if index and is_clean and not _drop(index, files, None):
    missing = _missing(index, files)
    if not any(_opens(os.path.join(source.images, path)) for path in missing):
      unopened = _embed(None, source, missing, files, embed, shard_size)
      return Index(str(place), source, index, unopened)
  place.mkdir(parents=True, exist_ok=True)
  lock = workdir_lock.WorkdirLock(place)
  try:
    _claim(place, source)
    writer = _Writer(place)
    _drop(_read(place, writer)[0], files, writer)
    missing = _missing(_read(place)[0], files)
    unopened = _embed(writer, source, missing, files, embed, shard_size)
    _merge(writer, _read(place)[0], shard_size)
    return Index(str(place), source, _read(place)[0], unopened)
  finally:
    lock.release()


def _claim(place: epath.Path, source: Source) -> None:
  """Says what the index is of, and removes what killed processes have left.

  Raises:
    UserError: It has become another's since it was looked at.
  """
  if (found := source_of(str(place))) is not None:
    check(found, source, str(place))
  else:
    content = {"format": _FORMAT, **dataclasses.asdict(source)}
    records.write_json(place / FILE, content)
  for partial in place.glob(".*.partial"):
    partial.unlink(missing_ok=True)


class _Writer:
  """Writes shards under the numbers after those that are there."""

  def __init__(self, place: epath.Path):
    self.place = place
    self._next = max(shards.numbers(place), default=-1) + 1

  def add(
    self,
    entries: Sequence[Entry],
    unreadable: Sequence[Entry],
    embeddings: Float[np.ndarray, "n e"],
  ) -> None:
    shards.write(self.place, self._next, entries, unreadable, embeddings)
    self._next += 1

  def remove(self, number: int) -> None:
    shards.remove(self.place, number)


def _read(
  place: epath.Path, writer: _Writer | None = None
) -> tuple[list[Shard], bool]:
  """The whole shards, and whether all are; `writer` removes the others."""
  found, is_clean = [], True
  for number in shards.numbers(place):
    try:
      found.append(shards.read(place, number))
    except shards.DamagedError as error:
      is_clean = False
      if writer is not None:
        _logger.warning("%s; its images are embedded again.", error)
        writer.remove(number)
  return found, is_clean


def _drop(
  found: Sequence[Shard], files: dict[str, Stamp], writer: _Writer | None
) -> int:
  """Drops entries of files that are gone or have changed.

  An update that was killed while it merged shards may also have left an entry
  twice.

  Args:
    found: All shards.
    files: The folder as it is.
    writer: Takes the places of the shards that change; None: they stay.

  Returns:
    The number of entries.
  """
  seen: set[str] = set()
  num_dropped = 0

  def is_kept(entry: Entry) -> bool:
    kept = files.get(entry.path) == entry.stamp and entry.path not in seen
    seen.add(entry.path)
    return kept

  for shard in found:
    rows = [row for row, e in enumerate(shard.entries) if is_kept(e)]
    unreadable = [entry for entry in shard.unreadable if is_kept(entry)]
    dropped = len(shard.entries) + len(shard.unreadable)
    dropped -= len(rows) + len(unreadable)
    num_dropped += dropped
    if writer is None or not dropped:
      continue
    if rows or unreadable:
      kept = [shard.entries[row] for row in rows]
      writer.add(kept, unreadable, shard.embeddings[rows])
    writer.remove(shard.number)
  if writer is not None and num_dropped:
    _logger.info("%d images are gone or have changed.", num_dropped)
  return num_dropped


def _missing(found: Sequence[Shard], files: dict[str, Stamp]) -> list[str]:
  """Paths of files without an entry, in their order."""
  known = {
    entry.path
    for shard in found
    for entry in (*shard.entries, *shard.unreadable)
  }
  return [path for path in files if path not in known]


def _embed(
  writer: _Writer | None,
  source: Source,
  paths: Sequence[str],
  files: dict[str, Stamp],
  embed: Embed,
  shard_size: int,
) -> list[Entry]:
  """Writes shards of the files; returns those that cannot be opened.

  Without a writer, none is expected to open.
  """
  unopened: list[Entry] = []
  if not paths:
    return unopened
  _logger.info("%d images are to be embedded.", len(paths))
  started = time.monotonic()
  embedded = iter(embed([os.path.join(source.images, path) for path in paths]))
  for start in range(0, len(paths), shard_size):
    entries, unreadable, rows = [], [], []
    for path in paths[start : start + shard_size]:
      file, row = next(embedded)
      if row is not None:
        entries.append(Entry(path, files[path]))
        rows.append(row)
        continue
      _logger.warning("%s", on_one_line(file.problem))
      kept = unreadable if _opens(file.path) else unopened
      kept.append(Entry(path, files[path], file.problem))
    if writer is not None and (entries or unreadable):
      embeddings = np.stack(rows) if rows else np.empty((0, 0), np.float32)
      writer.add(entries, unreadable, embeddings)
    done = min(start + shard_size, len(paths))
    _logger.info(
      "%d of %d images are embedded, %.1f a second.",
      done,
      len(paths),
      done / (time.monotonic() - started),
    )
  return unopened


def _merge(writer: _Writer, found: Sequence[Shard], shard_size: int) -> None:
  """Makes full shards of many that are nearly empty."""
  partial = [s for s in found if 2 * len(s.entries) < shard_size]
  if len(partial) <= MAX_PARTIAL:
    return
  entries = [entry for shard in partial for entry in shard.entries]
  unreadable = [entry for shard in partial for entry in shard.unreadable]
  rows = [shard.embeddings for shard in partial if shard.entries]
  embeddings = np.concatenate(rows) if rows else np.empty((0, 0), np.float32)
  for start in range(0, max(len(entries), 1), shard_size):
    part = slice(start, start + shard_size)
    writer.add(entries[part], unreadable, embeddings[part])
    unreadable = []
  for shard in partial:
    writer.remove(shard.number)


def _opens(path: str) -> bool:
  try:
    with open(path, "rb"):
      return True
  except OSError:
    return False


def _is_free(place: epath.Path) -> bool:
  """Tests if nothing lies at a path, or what a killed start has left."""
  if not place.exists():
    return True
  if not place.is_dir():
    return False
  names = (path.name for path in place.iterdir())
  return all(
    name == workdir_lock.NAME or name.startswith(".") for name in names
  )


def _named(source: Source) -> str:
  step = "" if source.step is None else f", step {source.step}"
  return f"the checkpoint {source.checkpoint}{step}"
