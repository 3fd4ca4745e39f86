"""Formats of image files: their names, their first bytes, and how they open.

JPEG, PNG, WebP, BMP, GIF, TIFF and AVIF are read, and HEIC if the package
pillow-heif is installed. Of a file of many pictures the first is taken.
"""

import importlib.util
import io
import threading

import numpy as np
from PIL import Image, ImageOps

_HEIF = (".heic", ".heif")
_READS_HEIF = importlib.util.find_spec("pillow_heif") is not None
SUFFIXES = (
  ".jpg",
  ".jpeg",
  ".png",
  ".webp",
  ".bmp",
  ".gif",
  ".tif",
  ".tiff",
  ".avif",
  *(_HEIF if _READS_HEIF else ()),
)
# How docs and messages write them.
PATTERN = "*.{jpg,png,webp,bmp,gif,tiff,avif}"
# Published datasets hold files with a wrong suffix: any of these will do.
_SIGNATURES = (
  b"\xff\xd8\xff",
  b"\x89PNG\r\n\x1a\n",
  b"RIFF",
  b"BM",
  b"GIF8",
  b"II*\0",
  b"MM\0*",
)
SIGNATURE_BYTES = 16

# Of Pillow's limit, which every thread of a process has in common.
_LIMIT_LOCK = threading.Lock()

if _READS_HEIF:
  import pillow_heif

  pillow_heif.register_heif_opener()


class UnreadablePixelsError(ValueError):
  """An image is whole, and of a kind of pixels that is not read."""


def is_image(file: str) -> bool:
  """Returns True for the name of an image that is not hidden."""
  return file.lower().endswith(SUFFIXES) and not file.startswith(".")


def begins_like_one(head: bytes) -> bool:
  """Returns True for the first `SIGNATURE_BYTES` bytes of an image."""
  is_boxed = head[4:8] == b"ftyp"  # AVIF and HEIC.
  return head.startswith(_SIGNATURES) or is_boxed


def remedy(suffix: str) -> str:
  """Says what makes files with a suffix readable; "" if nothing does."""
  if suffix in _HEIF and not _READS_HEIF:
    return "readable after `pip install pillow-heif`"
  return ""


def open_image(image: bytes | str) -> Image.Image:
  """Opens an image, lazily, as `PIL.Image.open`; a context manager.

  It may have any size: Pillow refuses more than 179 megapixels, which scans and
  aerial photographs have.

  Args:
    image: Content of a file, or the path of one.
  """
  source = io.BytesIO(image) if isinstance(image, bytes) else image
  with _LIMIT_LOCK:
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
      return Image.open(source)
    finally:
      Image.MAX_IMAGE_PIXELS = limit


def eight_bits(image: Image.Image) -> Image.Image:
  """The upper eight bits of grey of 16, which Pillow would cut off at 255."""
  if not image.mode.startswith("I;16"):
    return image
  return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))


def pixels(image: bytes) -> np.ndarray:
  """Decodes an image: uint8 [h, w, 3], upright.

  Of 16 bits a channel the upper eight are kept.

  Raises:
    UnreadablePixelsError: They have 32 bits, whose black and white nobody
      knows.
    Exception: Of many kinds, if it cannot be decoded.
  """
  with open_image(image) as opened:
    return pixels_of(opened)


def pixels_of(image: Image.Image) -> np.ndarray:
  """Decodes an image that is open, as `pixels`; raises the same."""
  upright = eight_bits(ImageOps.exif_transpose(image))
  if upright.mode in ("I", "F"):
    raise UnreadablePixelsError("32 bits a pixel; convert it to 8")
  return np.asarray(upright.convert("RGB"))
