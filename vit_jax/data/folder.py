"""Image folders: DIR/{train,val,test}/class/*.{jpg,png,...}.

`valid` and `validation` are also names of splits, and a folder without splits,
DIR/class/*, is one split, `train`. Suffixes are those of `image_formats`.

Labels are positions in the sorted names of the class folders of all splits, so
a label means the same class in each split. The records of a split are ordered
by a hash of 'class/file': as in a TFDS dataset, a slice such as 'train[:90%]'
then contains some of every class. `tfds.ImageFolder` gives only a
tf.data.Dataset of decoded images, without access by record number.

'folder:labels=none' reads all images in and below each split's folder, or in
and below DIR, without classes.
"""

import dataclasses
import hashlib
import os
import posixpath
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from vit_jax import buckets
from vit_jax.data import folder_listing, sources, splits, stored_images
from vit_jax.data.folder_listing import LINKS, UNLABELLED, Options
from vit_jax.errors import UserError

# Reading the first bytes takes 0.2 s for 50,000 cached files on a local disk,
# but a network file system may need a millisecond per file.
MAX_FILES_CHECKED = 100_000


def open_source(
  arguments: str,
  split: str,
  *,
  data_dir: str | None,
  max_bad_examples: int = 0,
  **unused: object,
) -> "FolderSource":
  """Opens an image folder; see `vit_jax.data.sources.open_source`.

  `arguments` are those of `check`.

  The first bytes of every image are checked, unless there are more than 100,000
  images or they are in a bucket.

  Raises:
    UserError: As `scan`; or more than `max_bad_examples` files are not images,
      in which case the message names all that cannot be decoded.
  """
  source = scan(split, data_dir, check(arguments))
  check_images(source, max_bad_examples)
  return source


def check(arguments: str) -> Options:
  """Parses the arguments of the dataset's name, separated by commas.

  Raises:
    UserError: An argument is unknown.
  """
  given = arguments.split(",") if arguments else []
  if not {LINKS, UNLABELLED}.issuperset(given):
    raise UserError(
      f"Dataset 'folder:{arguments}': write 'folder', 'folder:{UNLABELLED}'"
      f" for images without classes, or 'folder:{LINKS}' to follow links that"
      " lead out of the image folder."
    )
  return Options(LINKS in given, UNLABELLED in given)


def scan(
  split: str, data_dir: str | None, options: Options = folder_listing.PLAIN
) -> "FolderSource":
  """Lists an image folder without opening files.

  Args:
    split: Split string.
    data_dir: The image folder.
    options: Arguments of the dataset's name.

  Raises:
    UserError: There are no images, only one class, or classes without images.
  """
  if data_dir is None:
    raise UserError(
      "config.data_dir is not set; give the image folder, the one that holds"
      " train/, as --config.data_dir=DIR."
    )
  root = os.fspath(epath.Path(data_dir).expanduser())
  listing = folder_listing.find_images(root, options)
  files = listing.files
  class_names = (
    () if options.unlabelled else folder_listing.class_names(listing)
  )
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
  identity = "\n".join((*class_names, "", names))
  content = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
  features: dict[str, sources.Feature] = {"image": sources.Image()}
  labels = None
  if class_names:
    label_of = {name: label for label, name in enumerate(class_names)}
    labels = np.array([label_of[name] for _, name, _ in chosen], np.int32)
    features["label"] = sources.Label(len(class_names), class_names)
  return FolderSource(
    paths=[listing.path(*parts) for parts in chosen],
    labels=labels,
    features=features,
    fingerprint=f"folder:{split}:{len(chosen)}:{content}",
  )


@dataclasses.dataclass(frozen=True)
class FolderSource(sources.Source):
  """A split of an image folder; see `sources.Source`."""

  paths: Sequence[str]
  labels: np.ndarray | None
  features: Mapping[str, sources.Feature]
  fingerprint: str

  @property
  def num_examples(self) -> int:
    return len(self.paths)

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    images = stored_images.read_all(self.names(ids))
    return {"image": images, **self._labels_of(ids)}

  def read_or_locate(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    images = stored_images.read_or_locate_all(self.names(ids))
    return {**images, **self._labels_of(ids)}

  def _labels_of(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    return {} if self.labels is None else {"label": self.labels[ids]}

  def known_labels(self) -> np.ndarray | None:
    return self.labels

  def names(self, ids: np.ndarray) -> list[str]:
    return [self.paths[i] for i in ids]

  def file_names(self, ids: np.ndarray) -> list[str]:
    return [posixpath.basename(path) for path in self.names(ids)]


def check_images(
  source: FolderSource, max_bad_examples: int, *, root: str | None = None
) -> None:
  """Checks the first bytes of all files, unless there are too many.

  Args:
    source: Source of files on a local disk, or in a bucket, which are not
      checked.
    max_bad_examples: Number of files that may be something else.
    root: Folder that links must not leave; None for no restriction.

  Raises:
    UserError: More files are not images, or a link leads out of `root`.
  """
  if source.num_examples > MAX_FILES_CHECKED or buckets.is_bucket(
    source.paths[0]
  ):
    return
  if root is not None:
    for path in source.paths:
      folder_listing.check_inside(path, root)
  suspects = [
    i
    for i, path in enumerate(source.paths)
    if not stored_images.begins_like_one(path)
  ]
  if len(suspects) > max_bad_examples:
    # Imported late, as decoding requires TensorFlow.
    from vit_jax.data import integrity

    if error := integrity.explain(source, np.array(suspects)):
      raise error
