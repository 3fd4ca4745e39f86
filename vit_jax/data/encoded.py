"""Encoded images: recognition of their format, and decoding in TensorFlow.

For upright JPEGs, nearly all images, only the window that an op needs is
decoded. JPEGs with an EXIF orientation are decoded and rotated, PNGs decoded,
both in TensorFlow's threads; anything else (WebP, BMP, GIF, ...) is decoded by
Pillow. TensorFlow ignores orientation, and Pillow takes tens of microseconds to
find it, holding Python's lock: so it is parsed here.
"""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from vit_jax.data.tf_import import tf

Tensor = Any

# Forms 2 to 8 are JPEGs with that EXIF orientation.
UPRIGHT_JPEG, PNG, OTHER = 1, 9, 10
# The path of an upright JPEG instead of its content.
UPRIGHT_JPEG_FILE = 0

_TURNED = 5  # From here on, rows and columns are swapped.
_FLIP_ROWS = (3, 4, 7, 8)  # After the swap.
_FLIP_COLUMNS = (2, 3, 6, 7)
_ORIENTATION_TAG = 0x0112
# Markers of JPEG segments: application data and comments.
_BEFORE_EXIF = (*range(0xE0, 0xF0), 0xFE)
# Signs of a rotated PNG: a chunk, and names of texts.
_MAY_TURN_PNG = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")


def _exif_orientation(tiff: bytes) -> int:
  """Finds the orientation 1..8 in an EXIF block, after its 'Exif' marker."""
  order = "<" if tiff[:2] == b"II" else ">"
  try:
    (offset,) = struct.unpack_from(order + "I", tiff, 4)
    (count,) = struct.unpack_from(order + "H", tiff, offset)
    for i in range(count):
      tag, _, _, value = struct.unpack_from(
        order + "HHIH", tiff, offset + 2 + 12 * i
      )
      if tag == _ORIENTATION_TAG:
        return value if 1 <= value <= 8 else 1
  except struct.error:
    pass  # The block is broken; the pixels may be intact.
  return 1


def jpeg_orientation(data: bytes) -> int | None:
  """Returns the EXIF orientation 1..8 of a JPEG; 1 if it has none.

  None if `data`, the file or its beginning, ends too early to tell.
  """
  position = 2
  # Segments: 0xff, a marker, a length that includes itself. EXIF is in APP1,
  # and application segments come first, possibly with comments in between.
  while len(data) >= position + 4:
    if data[position] != 0xFF:
      return 1
    if data[position + 1] == 0xFF:  # Padding.
      position += 1
      continue
    if data[position + 1] not in _BEFORE_EXIF:
      return 1
    length = data[position + 2] * 256 + data[position + 3]
    end = position + 2 + length
    if (
      data[position + 1] == 0xE1
      and data[position + 4 : position + 10] == b"Exif\0\0"
    ):
      if len(data) < end:
        return None
      return _exif_orientation(data[position + 10 : end])
    position = end
  return None


def is_jpeg(data: bytes) -> bool:
  """Returns True if data begins like a JPEG."""
  return data[:2] == b"\xff\xd8"


def form(data: bytes) -> int:
  """Returns the form of an encoded image, one of the numbers above."""
  if is_jpeg(data):
    return jpeg_orientation(data) or UPRIGHT_JPEG
  is_png = data[:8] == b"\x89PNG\r\n\x1a\n"
  if is_png and not any(name in data for name in _MAY_TURN_PNG):
    return PNG
  return OTHER


def forms(images: np.ndarray) -> np.ndarray:
  """Returns the forms, int32 [n], of encoded images, object [n]."""
  return np.fromiter(map(form, images), np.int32, len(images))


def upright(pixels: np.ndarray, form: int) -> np.ndarray:
  """Rotates the pixels of a JPEG of a form, [h, w, c], upright."""
  if form >= _TURNED:
    pixels = pixels.swapaxes(0, 1)
  rows = -1 if form in _FLIP_ROWS else 1
  columns = -1 if form in _FLIP_COLUMNS else 1
  return pixels[::rows, ::columns]


def _decode_with_pillow(data: bytes | np.ndarray) -> np.ndarray:
  """Returns uint8 [h, w, 3], upright; outside graphs `data` is an array."""
  # Imported late, as Pillow is not always needed.
  from vit_jax.data import image_formats

  return image_formats.pixels(
    data.item() if isinstance(data, np.ndarray) else data
  )


def _decode_turned(data: Tensor, form: Tensor) -> Tensor:
  pixels = tf.io.decode_jpeg(data, channels=3)
  axes = tf.where(form >= _TURNED, [1, 0, 2], [0, 1, 2])
  flips = [
    tf.reduce_any(form == _FLIP_ROWS),
    tf.reduce_any(form == _FLIP_COLUMNS),
    False,
  ]
  return tf.raw_ops.Reverse(tensor=tf.transpose(pixels, axes), dims=flips)


def decode_other(data: Tensor) -> Tensor:
  """Decodes an image of any format with Pillow: uint8 [h, w, 3], upright."""
  # Bytes would become a NumPy array of bytes, losing trailing zeros.
  data = tf.convert_to_tensor(data, tf.string)
  pixels = tf.numpy_function(
    _decode_with_pillow, [data], tf.uint8, stateful=False
  )
  pixels.set_shape((None, None, 3))
  return pixels


class PixelImage:
  """Pixels, uint8 [h, w, c], usable by ops; see `ops_image.Image`."""

  def __init__(self, pixels: Tensor):
    if pixels.shape[-1] == 1:
      pixels = tf.repeat(pixels, 3, axis=-1)
    self._pixels = pixels

  def shape(self) -> Tensor:
    return tf.shape(self._pixels)

  def pixels(self) -> Tensor:
    return self._pixels

  def crop(self, window: Tensor) -> Tensor:
    begin = tf.concat([window[:2], [0]], axis=0)
    return tf.slice(self._pixels, begin, tf.concat([window[2:], [3]], axis=0))


class JpegImage:
  """An upright JPEG, decoded only as far as an op needs."""

  def __init__(self, data: Tensor):
    self._data = data

  def shape(self) -> Tensor:
    return tf.image.extract_jpeg_shape(self._data)

  def pixels(self) -> Tensor:
    return tf.io.decode_jpeg(self._data, channels=3)

  def crop(self, window: Tensor) -> Tensor:
    return tf.io.decode_and_crop_jpeg(self._data, window, channels=3)


def decode_into(
  op: Callable[[Any], Tensor], data: Tensor, form: Tensor
) -> Tensor:
  """Decodes one image as far as an op needs, and applies the op.

  Args:
    op: Function from a `JpegImage` or `PixelImage` to uint8 [h, w, 3].
    data: String scalar: the encoded bytes, or a path, depending on `form`.
    form: int32 scalar, the form of `data`.
  """

  def other() -> Tensor:
    return tf.cond(
      form == PNG,
      lambda: tf.io.decode_png(data, channels=3),
      lambda: tf.cond(
        form == OTHER,
        lambda: decode_other(data),
        lambda: _decode_turned(data, form),
      ),
    )

  branches = {
    UPRIGHT_JPEG_FILE: lambda: op(JpegImage(tf.io.read_file(data))),
    UPRIGHT_JPEG: lambda: op(JpegImage(data)),
  }
  return tf.switch_case(
    tf.convert_to_tensor(form), branches, lambda: op(PixelImage(other()))
  )
