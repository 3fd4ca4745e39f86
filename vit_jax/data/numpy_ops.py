"""Image ops of an evaluation without TensorFlow, bitwise equal to it.

For few images, importing TensorFlow takes longer than everything else. JPEGs
are decoded by the same library with the same settings, and resized by
`numpy_resize`.
"""

from collections.abc import Callable

import numpy as np
import simplejpeg
from jaxtyping import UInt8

from vit_jax.data import encoded, image_formats, numpy_resize
from vit_jax.data.spec import Preprocess

Pixels = UInt8[np.ndarray, "_ _ 3"]


class NumpyOps:
  """Applies the image ops of a preprocessing string to one image.

  Args:
    preprocess: Ops, all of them `supported`.
  """

  def __init__(self, preprocess: Preprocess):
    self._ops = [
      (_OPS[call.op.name], call.bound)
      for call in preprocess.of_kind("image")
      if call.op.name != "decode"
    ]

  def __call__(self, image: bytes) -> Pixels:
    """Decodes an image file and applies the ops.

    Raises:
      Exception: Of various types. The file is damaged, does not suit the ops,
        or is one of the few that only TensorFlow decodes.
    """
    return self.of_pixels(_decode(image))

  def of_pixels(self, pixels: Pixels) -> Pixels:
    """Applies the ops to a decoded image.

    Raises:
      ValueError: The image does not suit the ops.
    """
    for op, arguments in self._ops:
      pixels = op(pixels, **arguments)
    return pixels


def supported(preprocess: Preprocess) -> bool:
  """Returns True if all image ops are implemented here."""
  names = (call.op.name for call in preprocess.of_kind("image"))
  return all(name == "decode" or name in _OPS for name in names)


def _decode(image: bytes) -> Pixels:
  form = encoded.form(image)
  if form in (encoded.PNG, encoded.OTHER):
    return image_formats.pixels(image)
  if simplejpeg.decode_jpeg_header(image)[2] in ("CMYK", "YCCK"):
    raise ValueError("TensorFlow makes other colours of CMYK.")
  # TensorFlow's settings: fast arithmetic, smooth colours.
  pixels = simplejpeg.decode_jpeg(image, "RGB", fastdct=True)
  return encoded.upright(pixels, form)


def _resize(
  pixels: Pixels, size: int, method: str, antialias: bool, scale: float
) -> Pixels:
  side = round(scale * size)
  return numpy_resize.resize(pixels, side, side, method, antialias)


def _resize_small(
  pixels: Pixels,
  size: int,
  scale: float,
  method: str,
  antialias: bool,
  rounding: str,
) -> Pixels:
  shape, side = pixels.shape[:2], round(scale * size)
  if rounding == "down":
    height, width = (side * length // min(shape) for length in shape)
  else:
    sides = np.asarray(shape, np.float32)
    factor = np.float32(side) / sides.min()
    height, width = map(int, np.rint(sides * factor))
  return numpy_resize.resize(pixels, height, width, method, antialias)


def _central_crop(pixels: Pixels, size: int, rounding: str) -> Pixels:
  height, width, _ = pixels.shape
  if min(height, width) < size:
    raise ValueError(f"{height} x {width} pixels hold none of {size} x {size}.")
  top, left = (
    round(room / 2) if rounding == "nearest" else room // 2
    for room in (height - size, width - size)
  )
  return pixels[top : top + size, left : left + size]


_OPS: dict[str, Callable[..., Pixels]] = {
  "resize": _resize,
  "resize_small": _resize_small,
  "central_crop": _central_crop,
}
