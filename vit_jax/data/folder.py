"""Image folders: DIR/{train,val,test}/class/*.{jpg,jpeg,png,webp,bmp}.

Labels are the positions of the class folders' names in sorted order, over all
splits together, so a label means the same class in each. The records of a
split are ordered by a hash of 'class/file': as in a TFDS dataset, a slice such
as 'train[:90%]' then holds some of every class. `tfds.ImageFolder`
gives a tf.data.Dataset of decoded images only: no access by record number.
"""

import dataclasses
import hashlib
import logging
import os
import posixpath
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from vit_jax import buckets, truncate
from vit_jax.data import sources, splits, stored_images
from vit_jax.errors import UserError

SPLITS = ("train", "val", "validation", "test")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
# Reading the first bytes takes 0.2 s for 50,000 cached files on a local disk,
# but a network file system may need a millisecond for each.
MAX_FILES_CHECKED = 100_000

_logger = logging.getLogger(__name__)


def open_source(
  arguments: str,
  split: str,
  *,
  data_dir: str | None,
  max_bad_examples: int = 0,
  **unused: object,
) -> "FolderSource":
  """Opens an image folder; see `vit_jax.data.sources.open_source`.

  The first bytes of every image are checked, unless there are more than 100,000
  or they are in a bucket.

  Raises:
    UserError: As `scan`; or more than `max_bad_examples` files are no images,
      which names all that cannot be decoded.
  """
  source = scan(split, data_dir)
  if source.num_examples <= MAX_FILES_CHECKED and not buckets.is_bucket(
    source.paths[0]
  ):
    _raise_if_no_images(source, max_bad_examples)
  return source


def scan(split: str, data_dir: str | None) -> "FolderSource":
  """Lists an image folder and opens no file.

  Raises:
    UserError: There are no images, or one class, or classes without images.
  """
  if data_dir is None:
    raise UserError(
      "config.data_dir is not set; give the image folder, the one that holds"
      " train/, as --config.data_dir=DIR."
    )
  root = os.fspath(epath.Path(data_dir).expanduser())
  files = find_images(root)
  class_names = _class_names(root, files)
  labels = {name: label for label, name in enumerate(class_names)}
  pieces = splits.resolve(
    split,
    {name: [len(found)] for name, found in files.items()},
    dataset=f"image folder {root}",
  )
  chosen = [
    (piece.name, *pair)
    for piece in pieces
    for pair in files[piece.name][piece.start : piece.stop]
  ]
  names = "\n".join("/".join(parts) for parts in chosen)
  listing = "\n".join((*class_names, "", names))
  content = hashlib.sha256(os.fsencode(listing)).hexdigest()[:16]
  return FolderSource(
    paths=["/".join((root, *parts)) for parts in chosen],
    labels=np.array([labels[name] for _, name, _ in chosen], np.int32),
    features={
      "image": sources.Image(),
      "label": sources.Label(len(class_names), class_names),
    },
    fingerprint=f"folder:{split}:{len(chosen)}:{content}",
  )


@dataclasses.dataclass(frozen=True)
class FolderSource(sources.Source):
  """A split of an image folder; see `sources.Source`."""

  paths: Sequence[str]
  labels: np.ndarray
  features: Mapping[str, sources.Feature]
  fingerprint: str

  @property
  def num_examples(self) -> int:
    return len(self.paths)

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    images = stored_images.read_all(self.names(ids))
    return {"image": images, "label": self.labels[ids]}

  def read_or_locate(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    images = stored_images.read_or_locate_all(self.names(ids))
    return {**images, "label": self.labels[ids]}

  def names(self, ids: np.ndarray) -> list[str]:
    return [self.paths[i] for i in ids]

  def file_names(self, ids: np.ndarray) -> list[str]:
    return [posixpath.basename(path) for path in self.names(ids)]


def find_images(root: str) -> dict[str, list[tuple[str, str]]]:
  """Maps splits to (class, file) pairs in the order of the records.

  Opens no file.

  Raises:
    UserError: There are no splits, no images, classes without images, or links
      that lead elsewhere.
  """
  found: dict[str, list[tuple[str, str]]] = {}
  empty: set[str] = set()
  num_ignored = 0
  folders = sorted(name for name, is_dir in entries(root, root) if is_dir)
  for split in filter(SPLITS.__contains__, folders):
    found[split] = []
    for name, is_dir in sorted(entries(f"{root}/{split}", root)):
      if not is_dir or name.startswith("."):
        num_ignored += 1
        continue
      inside = entries(f"{root}/{split}/{name}", root)
      images = [f for f, is_dir in inside if is_image(f) and not is_dir]
      num_ignored += len(inside) - len(images)
      found[split].extend((name, file) for file in images)
      if not images:
        empty.add(name)
  if num_ignored:
    _logger.info("%s: %d files ignored that are not images.", root, num_ignored)
  if not any(found.values()):
    there = ", ".join(folders[:5]) + ", ..." * (len(folders) > 5) or "none"
    raise UserError(
      f"The image folder {root} has no images; they are looked for as"
      " train/CLASS/*.{jpg,jpeg,png,webp,bmp}, and likewise in val/ and"
      f" test/. Folders found there: {there}."
    )
  empty -= {name for pairs in found.values() for name, _ in pairs}
  if empty:
    raise UserError(
      f"The image folder {root} has classes without any image:"
      f" {truncate.first(sorted(empty))}. Add images or remove their folders."
    )
  for pairs in found.values():
    pairs.sort(key=_shuffled)
  return {split: pairs for split, pairs in found.items() if pairs}


def _class_names(
  root: str, files: dict[str, list[tuple[str, str]]]
) -> tuple[str, ...]:
  """Sorts the names of the classes of all splits; one class is an error."""
  by_split = {
    split: {name for name, _ in pairs} for split, pairs in files.items()
  }
  names = tuple(sorted(set().union(*by_split.values())))
  if len(names) == 1:
    raise UserError(
      f"The image folder {root} has one class, {names[0]!r}; a classifier"
      " needs two or more class folders."
    )
  for split, present in by_split.items():
    unseen = sorted(present - by_split.get("train", present))
    if unseen:
      _logger.warning(
        "%s: %s has classes that train lacks, so they cannot be learned: %s.",
        root,
        split,
        truncate.first(unseen),
      )
  return names


def _raise_if_no_images(source: FolderSource, max_bad_examples: int) -> None:
  suspects = [
    i
    for i, path in enumerate(source.paths)
    if not stored_images.begins_like_one(path)
  ]
  if len(suspects) > max_bad_examples:
    # Imported late, for decoding takes TensorFlow.
    from vit_jax.data import integrity

    if error := integrity.explain(source, np.array(suspects)):
      raise error


def entries(directory: str, root: str) -> list[tuple[str, bool]]:
  """Lists (name, is a folder) of all files and folders in a directory.

  Raises:
    UserError: It cannot be listed, or a link leads out of `root`.
  """
  found = []
  try:
    if buckets.is_bucket(directory):
      return [(p.name, p.is_dir()) for p in epath.Path(directory).iterdir()]
    # Unlike pathlib, scandir learns the kinds from the listing itself.
    with os.scandir(directory) as entries:
      for entry in entries:
        if entry.is_symlink():
          check_inside(entry.path, root)
        elif not entry.is_dir() and not entry.is_file():
          continue  # Reading from a pipe or a device would never end.
        found.append((entry.name, entry.is_dir()))
  except OSError as error:
    what, remedy = f"{directory} cannot", "mend that, or remove it"
    if directory == root:
      what = f"The image folder {root} cannot"
      remedy = "give the one that holds train/"
    raise UserError(
      f"{what} be listed ({error.strerror or error}); {remedy}."
    ) from None
  return found


def check_inside(path: str, root: str) -> None:
  """Raises UserError if `path`, perhaps a link, leads out of `root`."""
  target = os.path.realpath(path)
  if not is_inside(target, os.path.realpath(root)):
    raise UserError(
      f"{path} is a link to {target}, which is outside of {root}. Copy what it"
      " leads to, or name a folder that holds both."
    )


def is_inside(real: str, root: str) -> bool:
  """Compares two real paths: a file's, and a directory's."""
  return os.path.commonpath([real, root]) == root


def is_image(file: str) -> bool:
  """Returns True for the name of an image that is not hidden."""
  return file.lower().endswith(SUFFIXES) and not file.startswith(".")


def _shuffled(pair: tuple[str, str]) -> bytes:
  """Returns a sort key that has nothing to do with the class."""
  return hashlib.blake2b(os.fsencode("/".join(pair)), digest_size=16).digest()
