"""Folders of images and masks: DIR/images/SPLIT/*, DIR/annotations/SPLIT/*.png.

That is the layout of ADE20K's SceneParsing. A mask has the name of its image
with the suffix .png, the image's size, and a label for each pixel in a single
channel of 8 bits, or as the numbers of a palette. 255 is not labelled.
"""

import dataclasses
import functools
import logging
import os
import posixpath
import struct
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath
from jaxtyping import Int, UInt8
from PIL import Image

from vit_jax import buckets, truncate
from vit_jax.data import (
  folder,
  image_formats,
  numpy_resize,
  parallel,
  stored_images,
)
from vit_jax.errors import UserError

IGNORED = 255
# Labels 0 to 254, as 255 is no class.
MAX_CLASSES = 255

_PNG = b"\x89PNG\r\n\x1a\n"
# Width, height, bits and kind of pixels, after the signature and the name of
# the first chunk.
_HEADER = struct.Struct(">IIBB")
_HEADER_START = 16
_GREY, _PALETTE = 0, 3
_KINDS = {2: "RGB", 4: "grey with alpha", 6: "RGBA"}
_ORIENTATION_TAG = 0x0112
_TURNED = 5  # Orientations from here on swap width and height.

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class MaskFolder:
  """A split of a folder of images and masks, sorted by name.

  Attributes:
    key: Config key of the folder, for messages.
    images, masks: Paths, one mask for each image.
    reduce_zero_label: Whether 0 is not labelled and other labels are one less.
    largest: Largest label of each mask after that; -1: it has none.
  """

  key: str
  images: Sequence[str]
  masks: Sequence[str]
  reduce_zero_label: bool
  largest: Int[np.ndarray, " n"]

  @property
  def num_examples(self) -> int:
    return len(self.images)

  def require_classes(self, num_classes: int) -> None:
    """Raises UserError for a mask with a label that is no class; names it."""
    beyond = np.flatnonzero(self.largest >= num_classes)
    if beyond.size:
      first = beyond[0]
      reduced = " after reduce_zero_label" if self.reduce_zero_label else ""
      raise UserError(
        f"{self.key}: {self.masks[first]} has the label"
        f" {self.largest[first]}{reduced}, but num_classes = {num_classes}"
        f" allows 0 to {num_classes - 1} and {IGNORED} for pixels without one;"
        " set num_classes, or mend the mask."
      )

  def read(
    self, example: int, *, image_size: int, mask_size: int
  ) -> tuple[
    UInt8[np.ndarray, "{image_size} {image_size} 3"],
    UInt8[np.ndarray, "{mask_size} {mask_size}"],
  ]:
    """An image, resized bilinearly, and its labels by the nearest pixel.

    Raises:
      UserError: A file is damaged.
    """
    path = self.images[example]
    try:
      pixels = image_formats.pixels(stored_images.read(path))
    except UserError:
      raise
    except Exception:  # Decoders fail in many ways that mean the same here.
      raise UserError(
        f"{self.key}: {path} is damaged, or is no image of a known kind;"
        " replace it, or remove it and its mask."
      ) from None
    image = numpy_resize.resize(
      pixels, image_size, image_size, "bilinear", antialias=False
    )
    labels = _labels(self.key, self.masks[example], self.reduce_zero_label)
    return image, nearest(labels, mask_size)


def nearest(
  labels: UInt8[np.ndarray, "h w"], side: int
) -> UInt8[np.ndarray, "{side} {side}"]:
  """Labels at the centres of side x side equal parts of a mask.

  The centres are those between which images are interpolated.
  """
  rows, columns = (
    ((2 * np.arange(side) + 1) * length // (2 * side))
    for length in labels.shape
  )
  return labels[rows[:, None], columns]


def open_split(
  root: str, split: str, *, key: str, reduce_zero_label: bool
) -> MaskFolder:
  """Lists a split and reads all of its masks.

  Args:
    root: Folder that holds images/ and annotations/.
    split: Name of a folder in both.
    key: Config key of the folder, for messages.
    reduce_zero_label: As of `MaskFolder`.

  Raises:
    UserError: A folder or a mask is missing, a mask is no PNG of one channel of
      8 bits or of another size than its image, or no pixel has a label; names
      the file.
  """
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

  def check(pair: tuple[str, str]) -> int:
    image, mask = pair
    labels = _labels(key, mask, reduce_zero_label)
    height, width = labels.shape
    size = _image_size(key, image)
    if size != (width, height):
      raise UserError(
        f"{key}: {mask} has {width} x {height} pixels, but its image {image}"
        f" has {size[0]} x {size[1]}; they must be the same."
      )
    labelled = labels[labels != IGNORED]
    return int(labelled.max()) if labelled.size else -1

  pairs = zip(image_paths, mask_paths, strict=True)
  threads = os.cpu_count() or 1
  largest = np.array(
    list(parallel.in_threads(check, pairs, num_threads=threads))
  )
  if largest.max() < 0:
    raise UserError(
      f"{key}: no pixel of {root}/annotations/{split} has a label; all are"
      f" {IGNORED}" + (" or 0." if reduce_zero_label else ".")
    )
  return MaskFolder(key, image_paths, mask_paths, reduce_zero_label, largest)


def _listed(
  root: str, kind: str, split: str, key: str, suffix: str | None = None
) -> Mapping[str, str]:
  """Names of the files of a folder by their stems.

  Args:
    root: Folder that holds the folders of kinds.
    kind: 'images' or 'annotations'.
    split: Folder in that of the kind.
    key: Config key, for messages.
    suffix: Suffix of the files; None: any of images.
  """
  directory = f"{root}/{kind}/{split}"
  if not epath.Path(directory).is_dir():
    there = _folders(f"{root}/{kind}")
    raise UserError(
      f"{key}: there is no folder {directory}; masks are looked for as"
      f" annotations/{split}/NAME.png beside images/{split}/NAME.jpg."
      + (f" {root}/{kind} has {truncate.first(there)}." if there else "")
    )
  wanted = image_formats.is_image
  if suffix is not None:
    wanted = functools.partial(_ends_with, suffix=suffix)
  found: dict[str, str] = {}
  for name, is_dir in sorted(
    folder.entries(directory, root, follow_links=True)
  ):
    if is_dir or not wanted(name):
      continue
    stem = posixpath.splitext(name)[0]
    if stem in found:
      raise UserError(
        f"{key}: {directory} has {found[stem]} and {name}, which have one mask;"
        " rename or remove one."
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
  found = folder.entries(directory, directory, follow_links=True)
  return sorted(name for name, is_dir in found if is_dir)


def _image_size(key: str, path: str) -> tuple[int, int]:
  """Width and height of an image once it is upright; pixels are not read."""
  try:
    if buckets.is_bucket(path):
      opened = image_formats.open_image(stored_images.read(path))
    else:
      opened = Image.open(path)
    with opened as image:
      width, height = image.size
      # To look for it, a PNG that has none would be read to its end.
      has_exif = image.format != "PNG" or "exif" in image.info
      turned = has_exif and image.getexif().get(_ORIENTATION_TAG, 1) >= _TURNED
  except Exception:  # Decoders fail in many ways that mean the same here.
    raise UserError(
      f"{key}: {path} is damaged, or is no image of a known kind; replace it,"
      " or remove it and its mask."
    ) from None
  return (height, width) if turned else (width, height)


def _labels(
  key: str, path: str, reduce_zero_label: bool
) -> UInt8[np.ndarray, "h w"]:
  """Labels of a mask.

  Raises:
    UserError: It is no PNG of one channel of 8 bits, or is damaged.
  """
  data = stored_images.read(path)
  if not data.startswith(_PNG) or len(data) < _HEADER_START + _HEADER.size:
    raise UserError(f"{key}: the mask {path} is no PNG; replace it.")
  _, _, bits, kind = _HEADER.unpack_from(data, _HEADER_START)
  if kind != _PALETTE and (kind, bits) != (_GREY, 8):
    name = _KINDS.get(kind, "grey")
    raise UserError(
      f"{key}: the mask {path} is {name} of {bits} bits; a mask is a PNG of one"
      " channel of 8 bits, or of a palette, whose values are the labels."
    )
  try:
    with image_formats.open_image(data) as image:
      labels = np.array(image)
  except Exception:  # Decoders fail in many ways that mean the same here.
    raise UserError(f"{key}: the mask {path} is damaged; replace it.") from None
  if reduce_zero_label:
    # 0 comes to 255 by itself; what was that stays so.
    labels = np.where(labels == IGNORED, IGNORED, labels - np.uint8(1))
  return labels.astype(np.uint8)
