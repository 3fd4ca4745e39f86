"""An index of a folder of images, as it is read and searched.

INDEX/index.json      the folder, the checkpoint and its fingerprint
INDEX/000000.npy      embeddings, float32, one row an image
INDEX/000000.json     paths, sizes and times of these images
"""

import dataclasses
import json
import logging
import os
from collections.abc import Sequence

import numpy as np
from etils import epath
from jaxtyping import Float

from vit_jax import records
from vit_jax.errors import UserError
from vit_jax.rundir import workdir_lock
from vit_jax.searching import nearest, shards
from vit_jax.searching.shards import Entry, Shard

FILE = "index.json"
_FORMAT = 1

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Source:
  """The images and the checkpoint of an index.

  Attributes:
    images: Absolute path of the folder.
    checkpoint: Name of the checkpoint, or its absolute path.
    step: Its number of updates; None for a published file.
    fingerprint: Digest of everything that the embeddings depend on.
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
    directory: Its directory.
    source: Its images and checkpoint.
    shards: Its parts, in order.
    unopened: Files that the update could not open. This is not stored, as they
      may become readable without a change.
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
  """Reads the source of an index; None if there is no index.

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
  """Compares the source of an index with the one that is wanted.

  Raises:
    UserError: Its checkpoint or its folder is another.
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
  found, damaged = shards.read_all(epath.Path(directory))
  for error in damaged.values():
    _logger.warning("%s; its images are left out until the next update.", error)
  return Index(directory, source, found)


def begin(directory: str, source: Source) -> None:
  """Writes the source of an index, before its first shard."""
  content = {"format": _FORMAT, **dataclasses.asdict(source)}
  records.write_json(epath.Path(directory) / FILE, content)


def _is_free(place: epath.Path) -> bool:
  """Tests if there is nothing at a path, except what a kill has left."""
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
