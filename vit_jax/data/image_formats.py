"""Formats of image files: names, first bytes and opening.

JPEG, PNG, WebP, BMP, GIF, TIFF and AVIF are supported, and HEIC if the package
pillow-heif is installed. For files with several images the first is used.
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
# Spelling in docs and messages.
PATTERN = "*.{jpg,png,webp,bmp,gif,tiff,avif}"
# Published datasets contain files with a wrong suffix, so any of these is
# accepted.
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

# Lock for Pillow's limit, which all threads of a process share.
_LIMIT_LOCK = threading.Lock()

if _READS_HEIF:
  import pillow_heif

  pillow_heif.register_heif_opener()


class UnreadablePixelsError(ValueError):
  """An image is intact, but its kind of pixels is not supported."""


def is_image(file: str) -> bool:
  """Returns True for the name of an image that is not hidden."""
  return file.lower().endswith(SUFFIXES) and not file.startswith(".")


def begins_like_one(head: bytes) -> bool:
  """Returns True for the first `SIGNATURE_BYTES` bytes of an image."""
  is_boxed = head[4:8] == b"ftyp"  # AVIF and HEIC.
  return head.startswith(_SIGNATURES) or is_boxed


def remedy(suffix: str) -> str:
  """Describes what makes files with a suffix readable; "" if nothing does."""
  if suffix in _HEIF and not _READS_HEIF:
    return "readable after `pip install pillow-heif`"
  return ""


def open_image(image: bytes | str) -> Image.Image:
  """Opens an image, lazily, as `PIL.Image.open`; a context manager.

  Any size is allowed: by default Pillow rejects more than 179 megapixels, found
  in scans and aerial photographs.

  Args:
    image: Content or path of a file.
  """
  source = io.BytesIO(image) if isinstance(image, bytes) else image
  with _LIMIT_LOCK:
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
      return Image.open(source)
    finally:
      Image.MAX_IMAGE_PIXELS = limit


def eight_bits(image: Image.Image) -> Image.Image:
  """The upper eight of 16 bits of grey, which Pillow would clip at 255."""
  if not image.mode.startswith("I;16"):
    return image
  return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))


def pixels(image: bytes) -> np.ndarray:
  """Decodes an image: uint8 [h, w, 3], upright.

  Of 16 bits per channel the upper eight are kept.

  Raises:
    UnreadablePixelsError: They have 32 bits, for which black and white are
      undefined.
    Exception: Of various types, if it cannot be decoded.
  """
  with open_image(image) as opened:
    return pixels_of(opened)


def pixels_of(image: Image.Image) -> np.ndarray:
  """Decodes an open image like `pixels`, with the same errors."""
  upright = eight_bits(ImageOps.exif_transpose(image))
  if upright.mode in ("I", "F"):
    raise UnreadablePixelsError("32 bits a pixel; convert it to 8")
  return np.asarray(upright.convert("RGB"))
