"""Updates of an index, which make it fit its folder again.

An update embeds the images that are new or have changed and drops those that
are gone. It may be killed at any time and then loses only the shard that it was
writing; the next update continues from there.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from etils import epath
from jaxtyping import Float

from vit_jax.errors import UserError
from vit_jax.printable import on_one_line
from vit_jax.rundir import workdir_lock
from vit_jax.searching import index as indexes
from vit_jax.searching import photos, shards
from vit_jax.searching.index import Index, Source
from vit_jax.searching.shards import Entry, Shard, Stamp

if TYPE_CHECKING:
  from vit_jax.data.image_files import ImageFile

# Maximum number of images that a killed update has to embed again.
SHARD_SIZE = 512
# Small changes of the folder leave shards that are less than half full. Beyond
# this number they are merged.
MAX_PARTIAL = 16

Embed = Callable[
  [Sequence[str]], Iterable[tuple["ImageFile", np.ndarray | None]]
]

_logger = logging.getLogger(__name__)


def update(
  directory: str, source: Source, embed: Embed, *, shard_size: int = SHARD_SIZE
) -> Index:
  """Creates an index, or makes an existing one fit its folder.

  Args:
    directory: Its directory, created if it does not exist.
    source: Its images and checkpoint, which `index.check` has compared.
    embed: Yields each of the files, in order, with its embedding.
    shard_size: Number of images in a shard; a multiple of the batch size, so
      that batches are the same wherever an update is continued.

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
  # Usually nothing has changed; then the index need not be writable.
  whole, damaged = shards.read_all(place)
  if whole and not damaged and not _drop(whole, files, None):
    missing = _missing(whole, files)
    if not any(_opens(os.path.join(source.images, path)) for path in missing):
      unopened = _embed(None, source, missing, files, embed, shard_size)
      return Index(str(place), source, whole, unopened)
  place.mkdir(parents=True, exist_ok=True)
  lock = workdir_lock.WorkdirLock(place)
  try:
    _claim(place, source)
    writer = _Writer(place)
    whole, damaged = shards.read_all(place)
    for number, error in damaged.items():
      _logger.warning("%s; its images are embedded again.", error)
      writer.remove(number)
    _drop(whole, files, writer)
    missing = _missing(writer.whole_shards(), files)
    unopened = _embed(writer, source, missing, files, embed, shard_size)
    _merge(writer, shard_size)
    return Index(str(place), source, writer.whole_shards(), unopened)
  finally:
    lock.release()


def _claim(place: epath.Path, source: Source) -> None:
  """Writes the source of a new index, and removes what kills have left.

  Raises:
    UserError: Another process has created another index in the meantime.
  """
  if (found := indexes.source_of(str(place))) is not None:
    indexes.check(found, source, str(place))
  else:
    indexes.begin(str(place), source)
  for partial in place.glob(".*.partial"):
    partial.unlink(missing_ok=True)


class _Writer:
  """Writes shards under new numbers, above the existing ones."""

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

  def whole_shards(self) -> list[Shard]:
    """Reads the whole shards as they now are."""
    return shards.read_all(self.place)[0]


def _drop(
  found: Sequence[Shard], files: dict[str, Stamp], writer: _Writer | None
) -> int:
  """Drops entries of files that are gone or have changed.

  An update that was killed while it merged shards may have left entries twice;
  the second of them is dropped too.

  Args:
    found: All shards.
    files: Files of the folder.
    writer: Replaces the shards that change; None to only count.

  Returns:
    The number of dropped entries.
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
  """Returns the paths of files without an entry, in order."""
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
  """Embeds files into new shards; returns those that cannot be opened.

  The writer is None if none of the files can be opened.
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


def _merge(writer: _Writer, shard_size: int) -> None:
  """Merges shards that are less than half full, if there are many."""
  partial = [
    s for s in writer.whole_shards() if 2 * len(s.entries) < shard_size
  ]
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
