"""Preprocessing ops on images that run on the host, one image at a time.

An op takes an `Image`, decoded or not, and a seed for the op and the row, int64
[2]; it returns uint8 [h, w, 3]. It draws random numbers with stateless
functions of the seed only. Ops that cut out a window call `image.crop`, which
decodes no more of a JPEG than necessary.
"""

from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import pydantic

from vit_jax.data.registry import register
from vit_jax.data.tf_import import tf

Tensor = Any  # TensorFlow's, which is not imported here.
Size = Annotated[int, pydantic.Field(gt=0)]
Positive = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Percent = Annotated[float, pydantic.Field(gt=0, le=100)]
Method = Literal["bilinear", "bicubic", "area"]
Rounding = Literal["nearest", "down"]


@runtime_checkable
class Image(Protocol):
  """The input of an op."""

  def shape(self) -> Tensor:
    """Returns int32 [3]: height, width and stored channels, 1 to 4."""

  def pixels(self) -> Tensor:
    """Returns uint8 [height, width, 3]."""

  def crop(self, window: Tensor) -> Tensor:
    """Returns uint8 [h, w, 3] of a window, int32 [4]: top, left, h, w."""


def resize_pixels(
  pixels: Tensor, height: Any, width: Any, method: str, antialias: bool
) -> Tensor:
  """Resizes uint8 [h, w, 3] to uint8 [height, width, 3], rounded."""
  if not antialias or method == "area":
    return _rounded(tf.image.resize(pixels, (height, width), method=method))
  # The kernel processes rows, then columns, three numbers at a time. Processing
  # rows both times gives the same sums in half the time.
  sides = tf.shape(pixels)
  rows = tf.reshape(pixels, [sides[0], sides[1] * 3])
  rows = _antialiased_rows(rows, height, method)
  rows = tf.reshape(tf.transpose(rows), [sides[1], 3 * height])
  rows = _rounded(_antialiased_rows(rows, width, method))
  rows = tf.transpose(tf.reshape(rows, [width * 3, height]))
  return tf.reshape(rows, [height, width, 3])


def _antialiased_rows(rows: Tensor, count: Any, method: str) -> Tensor:
  """Resizes [n, length] to float32 [count, length]."""
  rows = rows[None, :, None, :]
  rows = tf.image.resize(rows, (count, 1), method=method, antialias=True)
  return rows[0, :, 0, :]


def _rounded(values: Tensor) -> Tensor:
  """Rounds halves up and clips bicubic overshoots in one pass."""
  quantized, _, _ = tf.raw_ops.QuantizeV2(
    input=values,
    min_range=0.0,
    max_range=255.0,
    T=tf.quint8,
    round_mode="HALF_AWAY_FROM_ZERO",
  )
  return tf.bitcast(quantized, tf.uint8)


def _window(top: Any, left: Any, height: Any, width: Any) -> Tensor:
  return tf.stack([top, left, height, width])


@register("image")
def decode(image: Image, seed: Tensor, /) -> Tensor:
  """Decodes to 8-bit RGB, upright by the EXIF tag; must come first.

  The next op in the pipeline determines which part is decoded.
  """
  return image.pixels()


def _ranges_check(**arguments: Any) -> str | None:
  for name in ("area", "ratio"):
    low, high = arguments[f"{name}_min"], arguments[f"{name}_max"]
    if low > high:
      return f"{name}_min = {low} is more than {name}_max = {high}"
  return None


@register("image", check=_ranges_check)
def inception_crop(
  image: Image,
  seed: Tensor,
  /,
  size: Size,
  area_min: Percent = 5.0,
  area_max: Percent = 100.0,
  ratio_min: Positive = 3 / 4,
  ratio_max: Positive = 1.33,
) -> Tensor:
  """Crops a random part and resizes it (bilinear) to size x size pixels.

  `area_min` and `area_max` bound the part in percent of the image's area,
  `ratio_min` and `ratio_max` its width over its height; the defaults are those
  of TensorFlow's `sample_distorted_bounding_box`. [BV] Resized pixels are
  rounded to the nearest level, whereas big_vision truncates them: its images
  are half a level darker on average.
  """
  top_left, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
    image.shape(),
    tf.zeros([0, 0, 4], tf.float32),
    seed,
    min_object_covered=0.0,
    aspect_ratio_range=(ratio_min, ratio_max),
    area_range=(area_min / 100, area_max / 100),
    use_image_if_no_bounding_boxes=True,
  )
  window = tf.concat([top_left[:2], extent[:2]], axis=0)
  return resize_pixels(image.crop(window), size, size, "bilinear", False)


@register("image", side=lambda side, size, scale, **_: round(scale * size))
def resize(
  image: Image,
  seed: Tensor,
  /,
  size: Size,
  method: Method = "bilinear",
  antialias: bool = False,
  scale: Positive = 1.0,
) -> Tensor:
  """Resizes the whole image to a square of round(scale * size) pixels."""
  side = round(scale * size)
  return resize_pixels(image.pixels(), side, side, method, antialias)


@register(
  "image",
  side=lambda side, **_: None,
  smaller=lambda side, size, scale, **_: round(scale * size),
)
def resize_small(
  image: Image,
  seed: Tensor,
  /,
  size: Size,
  scale: Positive = 1.0,
  method: Method = "area",
  antialias: bool = False,
  rounding: Rounding = "nearest",
) -> Tensor:
  """Resizes the smaller side to round(scale * size), keeping proportions. [BV]

  The other side is rounded to the nearest pixel [BV], or down as in torchvision
  and Hugging Face.
  """
  pixels = image.pixels()
  if rounding == "down":
    sides = tf.cast(tf.shape(pixels)[:2], tf.int64)
    new = round(scale * size) * sides // tf.reduce_min(sides)
  else:
    sides = tf.cast(tf.shape(pixels)[:2], tf.float32)
    new = tf.round(sides * (round(scale * size) / tf.reduce_min(sides)))
  new = tf.cast(new, tf.int32)
  return resize_pixels(pixels, new[0], new[1], method, antialias)


@register("image", cuts_out=True)
def central_crop(
  image: Image, seed: Tensor, /, size: Size, rounding: Rounding = "down"
) -> Tensor:
  """Crops the central size x size pixels; a smaller image is an error.

  Half pixels in the window's place are rounded down [BV], or to the nearest
  even number as in torchvision.
  """
  room = image.shape()[:2] - size
  place = room // 2
  if rounding == "nearest":
    place += room % 2 * (place % 2)
  crop = image.crop(_window(place[0], place[1], size, size))
  return tf.ensure_shape(crop, (size, size, 3))


@register("image", cuts_out=True)
def random_crop(image: Image, seed: Tensor, /, size: Size) -> Tensor:
  """Crops random size x size pixels; a smaller image is an error."""
  room = tf.cast(image.shape()[:2] - size + 1, tf.float32)
  place = tf.cast(tf.random.stateless_uniform([2], seed) * room, tf.int32)
  crop = image.crop(_window(place[0], place[1], size, size))
  return tf.ensure_shape(crop, (size, size, 3))


def _padded_side(side: int | None, *, pixels: int, **_: Any) -> int | None:
  return side + 2 * pixels if side else side  # None and unknown are kept.


@register("image", side=_padded_side)
def pad(
  image: Image,
  seed: Tensor,
  /,
  pixels: Size,
  value: Annotated[int, pydantic.Field(ge=0, le=255)] = 0,
) -> Tensor:
  """Adds `pixels` rows and columns of `value` on every side."""
  margins = [[pixels, pixels], [pixels, pixels], [0, 0]]
  return tf.pad(image.pixels(), margins, constant_values=value)


@register("image")
def scale_pixels(
  image: Image,
  seed: Tensor,
  /,
  factor: Annotated[int, pydantic.Field(gt=0, le=255)],
) -> Tensor:
  """Multiplies pixels by `factor`, up to 255, for images stored as 0 and 1."""
  pixels = tf.cast(image.pixels(), tf.int32) * factor
  return tf.cast(tf.minimum(pixels, 255), tf.uint8)
