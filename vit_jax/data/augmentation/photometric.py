"""Functions of colours, uint8 [h, w, 3] to uint8 [h, w, 3], as in Pillow.

Each gives Pillow's pixels, with Pillow's rounding: blends are truncated,
filters are rounded. Numbers may be Python's or scalar tensors. Pillow's table
lookups are replaced by arithmetic where that is faster in TensorFlow.
"""

from collections.abc import Sequence
from typing import Any

from vit_jax.data.augmentation.fused import fused
from vit_jax.data.tf_import import tf

Tensor = Any

_LEVELS = 256
# From ITU-R 601-2, in 1/65536; the sums are exact in float32.
_LUMA = (19595.0, 38470.0, 7471.0)
_LUMA_UNIT = 65536.0
_BLUR_PASSES = 3
_BLUR_UNIT = 2.0**24


def invert(pixels: Tensor) -> Tensor:
  return 255 - pixels


def posterize(pixels: Tensor, bits: Any) -> Tensor:
  """Keeps the highest `bits`, int32, 0 to 8, of each value."""
  mask = _LEVELS - tf.bitwise.left_shift(1, 8 - bits)
  return tf.bitwise.bitwise_and(pixels, tf.cast(mask, tf.uint8))


@fused
def solarize(pixels: Tensor, threshold: Any) -> Tensor:
  """Inverts values from the threshold, 0 to 256, upwards."""
  bright = tf.cast(pixels, tf.int16) >= tf.cast(threshold, tf.int16)
  return tf.bitwise.bitwise_xor(pixels, tf.cast(bright, tf.uint8) * 255)


@fused
def solarize_add(pixels: Tensor, addition: Any) -> Tensor:
  """Adds to values below 128, up to 255."""
  values = tf.cast(pixels, tf.int16)
  added = tf.minimum(tf.cast(addition, tf.int16), 255 - values)
  added *= tf.cast(values < 128, tf.int16)
  return tf.cast(values + added, tf.uint8)


@fused
def _looked_up(pixels: Tensor, table: Tensor) -> Tensor:
  """Looks up values in their channel's table, [3, 256]."""
  table = tf.cast(tf.clip_by_value(table, 0, 255), tf.uint8)
  return tf.gather(tf.reshape(table, [-1]), _table_places(pixels))


@fused
def _table_places(pixels: Tensor) -> Tensor:
  return tf.cast(pixels, tf.int32) + [0, _LEVELS, 2 * _LEVELS]


@fused
def _extremes(pixels: Tensor) -> Tensor:
  """Returns the lowest and the highest value of each channel, [2, 3]."""
  return tf.stack(
    [tf.reduce_min(pixels, (0, 1)), tf.reduce_max(pixels, (0, 1))]
  )


def autocontrast(pixels: Tensor) -> Tensor:
  """Stretches each channel so that its values range from 0 to 255."""
  low, high = tf.unstack(tf.cast(_extremes(pixels), tf.float64)[..., None])
  scale = 255 / tf.maximum(high - low, 1)
  levels = tf.range(_LEVELS, dtype=tf.float64)
  # Casting truncates as floor only for nonnegative values.
  stretched = tf.clip_by_value(levels * scale - low * scale, 0, 255)
  return _looked_up(pixels, tf.where(high > low, stretched, levels))


def equalize(pixels: Tensor) -> Tensor:
  """Makes the histogram of each channel as uniform as a table can."""
  places = tf.reshape(_table_places(pixels), [-1])
  counts = tf.math.bincount(places, minlength=3 * _LEVELS)
  counts = tf.reshape(counts, [3, _LEVELS])
  levels = tf.range(_LEVELS)
  last = tf.reduce_max(tf.where(counts > 0, levels, 0), axis=1)
  last_count = tf.gather(counts, last, batch_dims=1)
  step = (tf.reduce_sum(counts, axis=1) - last_count) // 255
  step = step[:, None]
  below = tf.cumsum(counts, axis=1, exclusive=True)
  table = (below + step // 2) // tf.maximum(step, 1)
  return _looked_up(pixels, tf.where(step > 0, table, levels))


def _luma(pixels: Tensor) -> Tensor:
  """Returns the luma, integers in float32 [h, w, 1]."""
  flat = tf.cast(tf.reshape(pixels, [-1, 3]), tf.float32)
  sums = tf.linalg.matmul(flat, tf.constant(_LUMA, shape=(3, 1)))
  luma = tf.floor((sums + _LUMA_UNIT / 2) / _LUMA_UNIT)
  return tf.reshape(luma, tf.concat([tf.shape(pixels)[:2], [1]], axis=0))


def greyscale(pixels: Tensor) -> Tensor:
  luma = tf.cast(_luma(pixels), tf.uint8)
  return tf.broadcast_to(luma, tf.shape(pixels))


@fused
def blend(pixels: Tensor, start: Any, factor: Any) -> Tensor:
  """Blends from `start`, factor 0, to the pixels, factor 1, and beyond."""
  start = tf.cast(start, tf.float32)
  change = tf.cast(pixels, tf.float32) - start
  mixed = start + tf.cast(factor, tf.float32) * change
  return tf.cast(tf.clip_by_value(mixed, 0, 255), tf.uint8)


def brightness(pixels: Tensor, factor: Any) -> Tensor:
  return blend(pixels, 0.0, factor)


@fused
def contrast(pixels: Tensor, factor: Any) -> Tensor:
  """Blends with the rounded mean of the luma."""
  luma = tf.cast(_luma(pixels), tf.int64)
  count = tf.size(luma, tf.int64)
  # In integers, as XLA would multiply by the inverse of the count.
  mean = (2 * tf.reduce_sum(luma) + count) // (2 * count)
  return blend(pixels, mean, factor)


@fused
def color(pixels: Tensor, factor: Any) -> Tensor:
  """Blends with the greyscale image, changing the saturation."""
  return blend(pixels, _luma(pixels), factor)


@fused
def sharpness(pixels: Tensor, factor: Any) -> Tensor:
  """Blends with the smoothed image, which keeps its edge pixels."""
  values = tf.cast(pixels, tf.int16)
  rows = values[:-2] + values[1:-1] + values[2:]
  squares = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
  inner = values[1:-1, 1:-1]
  sums = tf.cast(squares + 4 * inner, tf.int32)
  smooth = (2 * sums + 13) // 26
  change = tf.cast(smooth - tf.cast(inner, tf.int32), tf.float32)
  change = tf.pad(change, [[1, 1], [1, 1], [0, 0]])
  start = tf.cast(pixels, tf.float32) + change
  return blend(pixels, start, factor)


def _box_weights(radius: Any, reach: int) -> list[Tensor]:
  """Weights, by distance 0 to `reach`, of one of the blur's boxes.

  A box of fractional size has a third of the blur's variance. Weights are
  uint32, in 2^-24, as in Pillow: float32 would round ties differently.
  """
  variance = _as_float32(tf.cast(radius, tf.float32) ** 2 / _BLUR_PASSES)
  whole = tf.floor((tf.sqrt(12 * variance + 1) - 1) / 2)
  size = 2 * whole + 1
  part = _as_float32(size * (whole * (whole + 1) - 3 * variance))
  part = _as_float32(part / (6 * (variance - (whole + 1) ** 2)))
  width = tf.cast(2 * (whole + part) + 1, tf.float32)
  inner = tf.cast(tf.floor(_BLUR_UNIT / width), tf.float64)
  # The two outermost take the rest.
  outer = tf.floor((_BLUR_UNIT - size * inner) / 2)
  weights = [
    tf.where(
      distance <= whole, inner, tf.where(distance == whole + 1, outer, 0)
    )
    for distance in range(reach + 1)
  ]
  return [tf.cast(weight, tf.uint32) for weight in weights]


def _box_blur(pixels: Tensor, weights: Sequence[Tensor], axis: int) -> Tensor:
  """Blurs along an axis, uint8 to uint8, repeating the edges."""
  reach = len(weights) - 1
  length = tf.shape(pixels)[axis]
  places = tf.clip_by_value(tf.range(-reach, length + reach), 0, length - 1)
  padded = tf.cast(tf.gather(pixels, places, axis=axis), tf.uint32)

  def moved(by: int) -> Tensor:
    return (
      padded[reach + by : reach + by + length]
      if axis == 0
      else padded[:, reach + by : reach + by + length]
    )

  total = moved(0) * weights[0] + tf.constant(1 << 23, tf.uint32)
  for distance in range(1, reach + 1):
    total += (moved(-distance) + moved(distance)) * weights[distance]
  return tf.cast(
    tf.bitwise.right_shift(total, tf.constant(24, tf.uint32)), tf.uint8
  )


@fused
def gaussian_blur(
  pixels: Tensor, radius: Any, *, largest_radius: float
) -> Tensor:
  """Blurs with three boxes in each direction, whose variances add up.

  Args:
    pixels: uint8 [h, w, 3].
    radius: Standard deviation, pixels.
    largest_radius: Upper bound of `radius`, which determines the work.
  """
  variance = largest_radius**2 / _BLUR_PASSES
  reach = int(((12 * variance + 1) ** 0.5 - 1) / 2) + 1
  weights = _box_weights(radius, reach)
  for axis in (1, 0):
    for _ in range(_BLUR_PASSES):
      pixels = _box_blur(pixels, weights, axis)
  return pixels


@fused
def hue(pixels: Tensor, shift: Any) -> Tensor:
  """Rotates the hue by `shift` of a circle, -0.5 to 0.5, in Pillow's HSV."""
  # In Pillow's mix of float32 and float64, as colours are often at an edge.
  values = tf.cast(pixels, tf.float32)
  high = tf.reduce_max(values, axis=-1)
  spread = high - tf.reduce_min(values, axis=-1)
  divisor = tf.maximum(spread, 1)
  below = (high[..., None] - values) / divisor[..., None]
  red, green, blue = tf.unstack(tf.cast(below, tf.float64), axis=-1)
  sixths = tf.where(
    red == 0,
    blue - green,
    tf.where(green == 0, 2 + red - blue, 4 + green - red),
  )
  angle = tf.math.floormod(_as_float32(sixths) / 6 + 1, 1)
  angle = tf.floor(_as_float32(angle) * 255)
  saturation = tf.cast(spread / tf.maximum(high, 1), tf.float64)
  saturation = _as_float32(tf.floor(saturation * 255) / 255)
  # The hue has 256 levels, and the shift is truncated to whole levels.
  turn = tf.cast(tf.cast(shift, tf.float64) * 255, tf.int32)
  angle += tf.cast(turn, tf.float64)
  angle = tf.math.floormod(angle, 256) * 6 / 255
  sector = tf.floor(angle)
  within = _as_float32(angle - sector)
  sector = tf.math.floormod(sector, 6)
  high = tf.cast(high, tf.float64)
  low = _rounded(high * (1 - saturation))
  falling = _rounded(high * (1 - saturation * within))
  rising = _rounded(high * (1 - saturation * (1 - within)))
  order = tf.cast(sector, tf.int32)
  channels = (
    (high, falling, low, low, rising, high),
    (rising, high, high, falling, low, low),
    (low, low, rising, high, high, falling),
  )
  return tf.cast(
    tf.stack([_chosen(order, six) for six in channels], axis=-1), tf.uint8
  )


def _as_float32(values: Tensor) -> Tensor:
  return tf.cast(tf.cast(values, tf.float32), tf.float64)


def _rounded(values: Tensor) -> Tensor:
  return tf.floor(values + 0.5)


def _chosen(order: Tensor, options: Sequence[Tensor]) -> Tensor:
  result = options[0]
  for number, option in enumerate(options[1:], start=1):
    result = tf.where(order == number, option, result)
  return result
