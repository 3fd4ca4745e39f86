"""Affine maps of images, from uint8 [h, w, 3] to the same size.

`rotate`, `shear` and `translate` give Pillow's pixels: coordinates refer to
pixel centres, neighbours beyond the edge repeat the edge, pixels with a centre
from outside are filled, and values are truncated to integers. Pillow's bicubic
kernel for maps has a = -1 (for resizing, -0.5).

A shear or translation moves each line along itself, so only one dimension is
interpolated, with one fraction per line; only a rotation needs both.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from vit_jax.data.augmentation.fused import fused
from vit_jax.data.tf_import import tf

Tensor = Any
Method = Literal["bilinear", "bicubic"]
Fill = tuple[int, int, int]


def _linear(taps: Sequence[Tensor], fraction: Tensor) -> Tensor:
  return taps[0] + (taps[1] - taps[0]) * fraction


def _cubic(taps: Sequence[Tensor], fraction: Tensor) -> Tensor:
  # Equal neighbours give exactly their value, as truncation requires.
  first, second, third, fourth = taps
  linear = third - first
  quadratic = 2 * (first - second) + third - fourth
  cubic = second + fourth - first - third
  return second + fraction * (
    linear + fraction * (quadratic + fraction * cubic)
  )


_Interpolate = Callable[[Sequence[Tensor], Tensor], Tensor]
# Interpolation, and the places of its taps relative to the previous pixel.
_METHODS: dict[str, tuple[_Interpolate, range]] = {
  "bilinear": (_linear, range(2)),
  "bicubic": (_cubic, range(-1, 3)),
}


def _split(place: Tensor) -> tuple[Tensor, Tensor]:
  """Returns the integer part, int32, and the fraction, float32."""
  whole = tf.floor(place)
  return tf.cast(whole, tf.int32), tf.cast(place - whole, tf.float32)


def _filled(values: Tensor, inside: Tensor, fill: Fill) -> Tensor:
  """Truncates values to uint8; fills those from outside the image."""
  values = tf.cast(tf.clip_by_value(values, 0, 255), tf.uint8)
  return tf.where(inside[..., None], values, tf.constant(fill, tf.uint8))


def _move_lines(
  pixels: Tensor, offsets: Tensor, axis: int, method: Method, fill: Fill
) -> Tensor:
  """Takes the pixels of each line from places shifted along that line.

  Args:
    pixels: uint8 [h, w, 3].
    offsets: Shift of each line in pixels, float64; [h] if `axis` is 1, [w] if
      0.
    axis: Axis along which the lines run.
    method: Interpolation method.
    fill: Colour of pixels from outside the image.
  """
  interpolate, taps = _METHODS[method]
  shape = tf.shape(pixels)
  length, width = shape[axis], shape[1]
  whole, fraction = _split(tf.expand_dims(offsets, axis))
  along = tf.range(length + len(taps) - 1) + taps[0]
  lines = tf.range(shape[1 - axis])
  along = along[None, :] if axis == 1 else along[:, None]
  places = tf.clip_by_value(along + whole, 0, length - 1)
  if axis == 1:
    places += lines[:, None] * width
  else:
    places = places * width + lines[None, :]
  moved = tf.gather(tf.reshape(pixels, [-1, 3]), places)
  moved = tf.cast(moved, tf.float32)
  neighbours = [
    moved[:, tap : tap + length] if axis == 1 else moved[tap : tap + length]
    for tap in range(len(taps))
  ]
  source = tf.expand_dims(_centres(length), 1 - axis)
  source += tf.expand_dims(offsets, axis)
  inside = (source >= 0) & (source < tf.cast(length, tf.float64))
  return _filled(interpolate(neighbours, fraction[..., None]), inside, fill)


def _centres(length: Tensor) -> Tensor:
  return tf.range(tf.cast(length, tf.float64), dtype=tf.float64) + 0.5


@fused
def shear_x(pixels: Tensor, factor: Any, method: Method, fill: Fill) -> Tensor:
  """Moves row y to the left by `factor` * y."""
  offsets = tf.cast(factor, tf.float64) * _centres(tf.shape(pixels)[0])
  return _move_lines(pixels, offsets, 1, method, fill)


@fused
def shear_y(pixels: Tensor, factor: Any, method: Method, fill: Fill) -> Tensor:
  """Moves column x upwards by `factor` * x."""
  offsets = tf.cast(factor, tf.float64) * _centres(tf.shape(pixels)[1])
  return _move_lines(pixels, offsets, 0, method, fill)


@fused
def translate_x(
  pixels: Tensor, fraction: Any, method: Method, fill: Fill
) -> Tensor:
  """Moves the image to the left by a fraction of its width."""
  height, width = tf.unstack(tf.cast(tf.shape(pixels)[:2], tf.float64))
  offset = tf.cast(fraction, tf.float64) * width
  offsets = tf.fill([tf.cast(height, tf.int32)], offset)
  return _move_lines(pixels, offsets, 1, method, fill)


@fused
def translate_y(
  pixels: Tensor, fraction: Any, method: Method, fill: Fill
) -> Tensor:
  """Moves the image upwards by a fraction of its height."""
  height, width = tf.unstack(tf.cast(tf.shape(pixels)[:2], tf.float64))
  offset = tf.cast(fraction, tf.float64) * height
  offsets = tf.fill([tf.cast(width, tf.int32)], offset)
  return _move_lines(pixels, offsets, 0, method, fill)


@fused
def rotate(pixels: Tensor, degrees: Any, method: Method, fill: Fill) -> Tensor:
  """Rotates the image counterclockwise about its centre."""
  interpolate, taps = _METHODS[method]
  height, width = tf.unstack(tf.shape(pixels)[:2])
  middle_y = tf.cast(height, tf.float64) / 2
  middle_x = tf.cast(width, tf.float64) / 2
  radians = tf.cast(degrees, tf.float64) * (math.pi / 180)
  cosine, sine = tf.cos(radians), tf.sin(radians)
  y = (_centres(height) - middle_y)[:, None]
  x = (_centres(width) - middle_x)[None, :]
  source_x = cosine * x - sine * y + middle_x
  source_y = sine * x + cosine * y + middle_y
  inside = (source_x >= 0) & (source_x < 2 * middle_x)
  inside &= (source_y >= 0) & (source_y < 2 * middle_y)
  column, fraction_x = _split(source_x - 0.5)
  row, fraction_y = _split(source_y - 0.5)
  # Broadcast to the channels once, as arithmetic on equal shapes is faster.
  fraction_x, fraction_y = (
    tf.repeat(one[..., None], 3, axis=-1) for one in (fraction_x, fraction_y)
  )
  columns = [tf.clip_by_value(column + tap, 0, width - 1) for tap in taps]
  flat = tf.reshape(pixels, [-1, 3])
  lines = []
  for tap in taps:
    first = tf.clip_by_value(row + tap, 0, height - 1) * width
    neighbours = [
      tf.cast(tf.gather(flat, first + column), tf.float32) for column in columns
    ]
    lines.append(interpolate(neighbours, fraction_x))
  return _filled(interpolate(lines, fraction_y), inside, fill)


def rotation(radians: Tensor, shape: Tensor) -> list[Any]:
  """Returns a rotation about the centre of an image, for `nearest`."""
  cosine, sine = tf.cos(radians), tf.sin(radians)
  bottom = tf.cast(shape[0] - 1, radians.dtype)
  right = tf.cast(shape[1] - 1, radians.dtype)
  x = (right - (cosine * right - sine * bottom)) / 2
  y = (bottom - (sine * right + cosine * bottom)) / 2
  return [cosine, -sine, x, sine, cosine, y, 0, 0]


def nearest(pixels: Tensor, matrix: Sequence[Any], fill: float) -> Tensor:
  """Takes the nearest pixels with TensorFlow's projective map of 8 numbers."""
  matrix = tf.stack([tf.cast(number, tf.float32) for number in matrix])
  return tf.raw_ops.ImageProjectiveTransformV3(
    images=pixels[None],
    transforms=matrix[None],
    output_shape=tf.shape(pixels)[:2],
    fill_value=fill,
    interpolation="NEAREST",
    fill_mode="CONSTANT",
  )[0]
