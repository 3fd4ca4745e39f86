"""Files in a folder of images and masks: pixels, sizes and labels.

`key` is the config key of the folder, for messages.
"""

import struct

import numpy as np
from etils import epath
from jaxtyping import UInt8

from vit_jax import buckets
from vit_jax.data import image_formats, outages
from vit_jax.errors import UserError

IGNORED = 255

_PNG = b"\x89PNG\r\n\x1a\n"
# Width, height, bits and kind of pixels, after the signature and the name of
# the first chunk.
_HEADER = struct.Struct(">IIBB")
_HEADER_START = 16
_GREY, _PALETTE = 0, 3
_KINDS = {2: "RGB", 4: "grey with alpha", 6: "RGBA"}
# Pillow's names for data that may rotate an image.
_TURNS = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")
_ORIENTATION_TAG = 0x0112
_TURNED = 5  # From here on, width and height are swapped.


def pixels(key: str, path: str) -> UInt8[np.ndarray, "h w 3"]:
  """Decodes an image, upright.

  Raises:
    UserError: It cannot be read, or is damaged.
  """
  data = _read(key, path, "mask")
  try:
    return image_formats.pixels(data)
  except Exception:  # Decoders raise many errors, all treated the same.
    raise _damaged(key, path) from None


def image_shape(key: str, path: str) -> tuple[int, int]:
  """Height and width of an image, upright according to data before its pixels.

  The pixels are not decoded, and not read from a local file.

  Raises:
    UserError: It cannot be read, or is damaged.
  """
  in_bucket = buckets.is_bucket(path)
  source = _read(key, path, "mask") if in_bucket else path
  try:
    with image_formats.open_image(source) as image:
      width, height = image.size
      # The search would read a PNG without a tag to its end.
      may_turn = image.format != "PNG" or any(n in image.info for n in _TURNS)
      turned = may_turn and image.getexif().get(_ORIENTATION_TAG, 1) >= _TURNED
  except Exception:  # Decoders raise many errors, all treated the same.
    raise _damaged(key, path) from None
  return (width, height) if turned else (height, width)


def labels(
  key: str, path: str, reduce_zero_label: bool
) -> UInt8[np.ndarray, "h w"]:
  """Labels of a mask, as in `MaskFolder`.

  Raises:
    UserError: It cannot be read, is not a PNG with one channel of 8 bits, or is
      damaged.
  """
  data = _read(key, path, "image")
  if not data.startswith(_PNG) or len(data) < _HEADER_START + _HEADER.size:
    raise UserError(f"{key}: the mask {path} is not a PNG; replace it.")
  _, _, bits, kind = _HEADER.unpack_from(data, _HEADER_START)
  if kind != _PALETTE and (kind, bits) != (_GREY, 8):
    name = _KINDS.get(kind, "grey")
    raise UserError(
      f"{key}: the mask {path} is {name} of {bits} bits; a mask is a PNG of one"
      " channel of 8 bits, or of a palette, whose values are the labels."
    )
  try:
    with image_formats.open_image(data) as image:
      values = np.array(image)
  except Exception:  # Decoders raise many errors, all treated the same.
    raise UserError(f"{key}: the mask {path} is damaged; replace it.") from None
  if reduce_zero_label:
    # 0 wraps around to 255; 255 is restored.
    values = np.where(values == IGNORED, IGNORED, values - np.uint8(1))
  return values.astype(np.uint8)


def _read(key: str, path: str, other: str) -> bytes:
  """Content of a file; `other` is its counterpart, for the message."""
  try:
    return outages.outlast(path, epath.Path(path).read_bytes)
  except OSError as error:
    raise UserError(
      f"{key}: {path} cannot be read ({error.strerror or error}); replace it,"
      f" or remove it and its {other}."
    ) from None


def _damaged(key: str, path: str) -> UserError:
  return UserError(
    f"{key}: {path} is damaged, or is not an image of a known kind; replace it,"
    " or remove it and its mask."
  )
