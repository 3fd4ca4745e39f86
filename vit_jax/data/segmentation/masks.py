"""Folders of images and masks: DIR/images/SPLIT/*, DIR/annotations/SPLIT/*.png.

This is the layout of ADE20K's SceneParsing. A mask has the name of its image
with the suffix .png, the image's size, and a label for each pixel in a single
channel of 8 bits, or as indices of a palette. 255 means no label.
"""

import dataclasses
import functools
import hashlib
import logging
import os
import posixpath
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath
from jaxtyping import Int, UInt8

from vit_jax import buckets, truncate
from vit_jax.data import folder_listing, image_formats, numpy_resize, parallel
from vit_jax.data.segmentation import mask_files
from vit_jax.data.segmentation.mask_files import IGNORED
from vit_jax.errors import UserError

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class MaskFolder:
  """A split of a folder of images and masks, sorted by name.

  Attributes:
    key: Config key of the folder, for messages.
    images, masks: Paths of images and of their masks.
    reduce_zero_label: True if 0 means no label and other labels are decreased
      by one.
    largest: Largest resulting label of each mask; -1 if it has none.
  """

  key: str
  images: Sequence[str]
  masks: Sequence[str]
  reduce_zero_label: bool
  largest: Int[np.ndarray, " n"]

  @property
  def num_examples(self) -> int:
    return len(self.images)

  @property
  def fingerprint(self) -> str:
    """Identifies the names of the files and the largest label of each mask."""
    names = [os.path.basename(path) for path in (*self.images, *self.masks)]
    text = repr((names, self.largest.tolist(), self.reduce_zero_label))
    return f"masks:{hashlib.sha256(text.encode()).hexdigest()[:16]}"

  def require_classes(self, num_classes: int) -> None:
    """Raises UserError naming a mask with a label that is not a class."""
    beyond = np.flatnonzero(self.largest >= num_classes)
    if beyond.size:
      first = beyond[0]
      reduced = " after reduce_zero_label" if self.reduce_zero_label else ""
      raise UserError(
        f"{self.key}: {self.masks[first]} has the label"
        f" {self.largest[first]}{reduced}, but num_classes = {num_classes}"
        f" allows 0 to {num_classes - 1} and {IGNORED} for pixels without one;"
        " set num_classes, or fix the mask."
      )

  def read(
    self, example: int, *, image_size: int, mask_size: int
  ) -> tuple[
    UInt8[np.ndarray, "{image_size} {image_size} 3"],
    UInt8[np.ndarray, "{mask_size} {mask_size}"],
  ]:
    """Reads an image, resized bilinearly, and labels of the nearest pixels.

    Raises:
      UserError: A file is damaged, or the upright image differs in size from
        its mask.
    """
    path, mask = self.images[example], self.masks[example]
    pixels = mask_files.pixels(self.key, path)
    labels = mask_files.labels(self.key, mask, self.reduce_zero_label)
    if pixels.shape[:2] != labels.shape:  # EXIF may follow the pixels.
      raise _unlike(self.key, path, pixels.shape, mask, labels.shape)
    image = numpy_resize.resize(
      pixels, image_size, image_size, "bilinear", antialias=False
    )
    return image, nearest(labels, mask_size)


def nearest(
  labels: UInt8[np.ndarray, "h w"], side: int
) -> UInt8[np.ndarray, "{side} {side}"]:
  """Labels at the centres of side x side equal parts of a mask.

  Images are interpolated between the same centres.
  """
  rows, columns = (
    ((2 * np.arange(side) + 1) * length // (2 * side))
    for length in labels.shape
  )
  return labels[rows[:, None], columns]


def open_split(
  root: str, split: str, *, key: str, reduce_zero_label: bool, mask_size: int
) -> MaskFolder:
  """Lists a split and reads all of its masks.

  Args:
    root: Folder that contains images/ and annotations/.
    split: Name of a folder in both.
    key: Config key of the folder, for messages.
    reduce_zero_label: As in `MaskFolder`.
    mask_size: Side of the masks to be read.

  Raises:
    UserError: A folder or a mask, named in the message, is missing, a mask is
      not a PNG with one channel of 8 bits or differs in size from its image, or
      no pixel has a label before or after resizing.
  """
  _check_bucket(key, root)
  root = os.fspath(epath.Path(root).expanduser())
  images = _listed(root, "images", split, key)
  masks = _listed(root, "annotations", split, key, suffix=".png")
  missing = [name for stem, name in images.items() if stem not in masks]
  if missing:
    raise UserError(
      f"{key}: {len(missing)} of {len(images)} images of"
      f" {root}/images/{split} have no mask of the same name"
      f" (.png) in {root}/annotations/{split}: {truncate.first(missing)}; add"
      " them, or remove the images."
    )
  if len(masks) > len(images):
    _logger.warning(
      "%s: %d masks of %s/annotations/%s have no image and are left out.",
      key,
      len(masks) - len(images),
      root,
      split,
    )
  stems = sorted(images)
  image_paths = [f"{root}/images/{split}/{images[stem]}" for stem in stems]
  mask_paths = [f"{root}/annotations/{split}/{masks[stem]}" for stem in stems]

  def check(pair: tuple[str, str]) -> tuple[int, bool]:
    image, mask = pair
    labels = mask_files.labels(key, mask, reduce_zero_label)
    shape = mask_files.image_shape(key, image)
    if shape != labels.shape and shape == labels.shape[::-1]:
      # EXIF may follow the pixels.
      shape = mask_files.pixels(key, image).shape[:2]
    if shape != labels.shape:
      raise _unlike(key, image, shape, mask, labels.shape)
    labelled = labels[labels != IGNORED]
    largest = int(labelled.max()) if labelled.size else -1
    return largest, bool((nearest(labels, mask_size) != IGNORED).any())

  pairs = zip(image_paths, mask_paths, strict=True)
  threads = os.cpu_count() or 1
  largest, is_labelled = map(
    np.array,
    zip(*parallel.in_threads(check, pairs, num_threads=threads), strict=True),
  )
  if largest.max() < 0:
    raise UserError(
      f"{key}: no pixel of {root}/annotations/{split} has a label; all are"
      f" {IGNORED}" + (" or 0." if reduce_zero_label else ".")
    )
  if not is_labelled.any():
    raise UserError(
      f"{key}: no pixel of {root}/annotations/{split} has a label once masks"
      f" are resized to mask_size = {mask_size}; set a larger mask_size."
    )
  return MaskFolder(key, image_paths, mask_paths, reduce_zero_label, largest)


def _check_bucket(key: str, root: str) -> None:
  """Raises UserError for a folder in an inaccessible bucket."""
  buckets.check(root)
  try:
    with buckets.as_os_error(root):
      epath.Path(root).exists()
  except OSError as error:
    raise UserError(
      f"{key}: {root} cannot be read ({error.strerror or error}); give a folder"
      " on a file system, or in a bucket of gs://."
    ) from None


def _listed(
  root: str, kind: str, split: str, key: str, suffix: str | None = None
) -> Mapping[str, str]:
  """Names of the files in a folder, by stem.

  Args:
    root: Folder that contains the folders of each kind.
    kind: 'images' or 'annotations'.
    split: Name of the split's folder.
    key: Config key, for messages.
    suffix: Suffix of the files; None for any suffix of images.
  """
  directory = f"{root}/{kind}/{split}"
  if not epath.Path(directory).is_dir():
    there = _folders(f"{root}/{kind}")
    raise UserError(
      f"{key}: there is no folder {directory}; masks are looked for as"
      f" annotations/{split}/NAME.png for images/{split}/NAME.jpg."
      + (f" {root}/{kind} has {truncate.first(there)}." if there else "")
    )
  wanted = image_formats.is_image
  if suffix is not None:
    wanted = functools.partial(_ends_with, suffix=suffix)
  found: dict[str, str] = {}
  for name, is_dir in sorted(
    folder_listing.entries(directory, root, follow_links=True)
  ):
    if is_dir or not wanted(name):
      continue
    stem = posixpath.splitext(name)[0]
    if stem in found:
      shared = "mask" if suffix is None else "image"
      raise UserError(
        f"{key}: {directory} has {found[stem]} and {name}, which have one"
        f" {shared}; rename or remove one."
      )
    found[stem] = name
  if not found:
    pattern = image_formats.PATTERN if suffix is None else f"*{suffix}"
    raise UserError(f"{key}: {directory} has no files {pattern}.")
  return found


def _ends_with(name: str, suffix: str) -> bool:
  return name.lower().endswith(suffix) and not name.startswith(".")


def _folders(directory: str) -> list[str]:
  if not epath.Path(directory).is_dir():
    return []
  found = folder_listing.entries(directory, directory, follow_links=True)
  return sorted(name for name, is_dir in found if is_dir)


def _unlike(
  key: str,
  image: str,
  image_shape: Sequence[int],
  mask: str,
  mask_shape: Sequence[int],
) -> UserError:
  """The error for an image and a mask of different sizes; rows come first."""
  return UserError(
    f"{key}: {mask} has {mask_shape[1]} x {mask_shape[0]} pixels, but its image"
    f" {image} has {image_shape[1]} x {image_shape[0]}; they must be the same."
  )
