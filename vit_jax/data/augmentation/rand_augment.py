"""RandAugment: ops drawn at random, in the versions of timm and big_vision.

In both, `n` ops are drawn with replacement and applied one after the other.
They differ in everything else; `TIMM_OPS` and `BIG_VISION_OPS` list the ops to
draw from. Only the drawn op is computed.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from vit_jax.data.augmentation import geometric, photometric
from vit_jax.data.tf_import import tf

Tensor = Any
Interpolation = Literal["bilinear", "bicubic", "random"]

# Magnitude at which timm's ops are strongest.
MAX_MAGNITUDE = 10.0
# 255 times the mean of ImageNet's channels, rounded.
IMAGENET_MEAN = (124, 116, 104)
_GREY = 128
# big_vision's ops in pixels at magnitude 10.
_TRANSLATION = 100.0
_CUTOUT = 40.0

TIMM_OPS = (
  "AutoContrast",
  "Equalize",
  "Invert",
  "Rotate",
  "Posterize",
  "Solarize",
  "SolarizeAdd",
  "Color",
  "Contrast",
  "Brightness",
  "Sharpness",
  "ShearX",
  "ShearY",
  "TranslateXRel",
  "TranslateYRel",
)
BIG_VISION_OPS = (
  "AutoContrast",
  "Equalize",
  "Invert",
  "Rotate",
  "Posterize",
  "Solarize",
  "Color",
  "Contrast",
  "Brightness",
  "Sharpness",
  "ShearX",
  "ShearY",
  "TranslateX",
  "TranslateY",
  "Cutout",
  "SolarizeAdd",
)


class Draws(NamedTuple):
  """The random numbers of the n ops of an image.

  Attributes:
    op: Index in the list of ops, int32 [n]; beyond its end for no op.
    magnitude: Strength in units of timm's scale, 0 to 10, float64 [n].
    sign: Direction, -1 or 1, float64 [n].
    place: Uniform numbers in [0, 1) for other uses, float32 [n, 2].
  """

  op: Tensor
  magnitude: Tensor
  sign: Tensor
  place: Tensor


def timm_draws(seed: Tensor, n: int, m: float, std: float) -> Draws:
  """Draws as timm: half of the ops are skipped, magnitudes are normal."""
  uniform = tf.random.stateless_uniform([n, 5], seed)
  magnitude = tf.fill([n], tf.constant(m, tf.float64))
  if std:
    normal = tf.cast(tf.math.ndtri(uniform[:, 1]), tf.float64)
    magnitude = tf.clip_by_value(magnitude + std * normal, 0, MAX_MAGNITUDE)
  return _draws(uniform, 2 * len(TIMM_OPS), magnitude)


def big_vision_draws(seed: Tensor, n: int, m: float) -> Draws:
  """Draws as big_vision: every op is applied, always with magnitude m."""
  uniform = tf.random.stateless_uniform([n, 5], seed)
  magnitude = tf.fill([n], tf.constant(m, tf.float64))
  return _draws(uniform, len(BIG_VISION_OPS), magnitude)


def _draws(uniform: Tensor, num_choices: int, magnitude: Tensor) -> Draws:
  op = tf.cast(uniform[:, 0] * num_choices, tf.int32)
  sign = tf.where(uniform[:, 2] < 0.5, -1.0, 1.0)
  return Draws(op, magnitude, tf.cast(sign, tf.float64), uniform[:, 3:])


def timm(
  pixels: Tensor,
  draws: Draws,
  *,
  increasing: bool,
  interpolation: Interpolation,
  fill: geometric.Fill,
) -> Tensor:
  """Applies drawn ops of timm's list to uint8 [h, w, 3].

  Args:
    pixels: The image.
    draws: Draws from `timm_draws`.
    increasing: True if posterize, solarize and the four enhancements become
      stronger with the magnitude, the latter upwards or downwards at random.
    interpolation: Interpolation of the geometric ops; "random" draws bilinear
      or bicubic.
    fill: Colour of pixels from outside the image.
  """

  def moved(function: Callable[..., Tensor], unit: float) -> Callable[..., Any]:
    def apply(image: Tensor, level: Tensor, sign: Tensor, place: Tensor):
      amount = sign * level * unit
      if interpolation != "random":
        return function(image, amount, interpolation, fill)
      return tf.cond(
        place[0] < 0.5,
        lambda: function(image, amount, "bilinear", fill),
        lambda: function(image, amount, "bicubic", fill),
      )

    return apply

  def enhanced(function: Callable[..., Tensor]) -> Callable[..., Any]:
    def apply(image: Tensor, level: Tensor, sign: Tensor, place: Tensor):
      if increasing:
        return function(image, tf.maximum(1 + sign * level * 0.9, 0.1))
      return function(image, level * 1.8 + 0.1)

    return apply

  def posterized(image: Tensor, level: Tensor, *_: Tensor) -> Tensor:
    bits = tf.cast(level * 4, tf.int32)
    return photometric.posterize(image, 4 - bits if increasing else bits)

  def solarized(image: Tensor, level: Tensor, *_: Tensor) -> Tensor:
    threshold = tf.cast(level * 256, tf.int32)
    return photometric.solarize(
      image, 256 - threshold if increasing else threshold
    )

  return _apply(
    pixels,
    draws,
    {
      "AutoContrast": _without_level(photometric.autocontrast),
      "Equalize": _without_level(photometric.equalize),
      "Invert": _without_level(photometric.invert),
      "Rotate": moved(geometric.rotate, 30.0),
      "Posterize": posterized,
      "Solarize": solarized,
      "SolarizeAdd": _solarized_add,
      "Color": enhanced(photometric.color),
      "Contrast": enhanced(photometric.contrast),
      "Brightness": enhanced(photometric.brightness),
      "Sharpness": enhanced(photometric.sharpness),
      "ShearX": moved(geometric.shear_x, 0.3),
      "ShearY": moved(geometric.shear_y, 0.3),
      "TranslateXRel": moved(geometric.translate_x, 0.45),
      "TranslateYRel": moved(geometric.translate_y, 0.45),
    },
    TIMM_OPS,
  )


def big_vision(pixels: Tensor, draws: Draws) -> Tensor:
  """Applies drawn ops of big_vision's list to uint8 [h, w, 3].

  The results of its code are reproduced even where they differ from what the
  names of its ops suggest. Solarize's threshold, 25.6 times the magnitude,
  wraps around at 256, so magnitude 10 inverts the image and 15 equals 5.
  Contrast blends with h * w / 256 instead of the mean. Posterize keeps at least
  one bit. Ops with Pillow's names are computed as in Pillow, within one level
  of big_vision.
  """

  def moved(
    matrix: Callable[[Tensor, Tensor], Tensor],
  ) -> Callable[..., Tensor]:
    def apply(image: Tensor, level: Tensor, sign: Tensor, place: Tensor):
      numbers = matrix(sign * level, tf.shape(image))
      return geometric.nearest(image, numbers, float(_GREY))

    return apply

  def enhanced(function: Callable[..., Tensor]) -> Callable[..., Any]:
    def apply(image: Tensor, level: Tensor, *_: Tensor) -> Tensor:
      return function(image, level * 1.8 + 0.1)

    return apply

  def posterized(image: Tensor, level: Tensor, *_: Tensor) -> Tensor:
    bits = tf.cast(level * 4, tf.int32)
    return photometric.posterize(image, tf.maximum(bits, 1))

  def solarized(image: Tensor, level: Tensor, *_: Tensor) -> Tensor:
    return photometric.solarize(image, tf.cast(level * 256, tf.int32) % 256)

  def colored(image: Tensor, factor: Tensor) -> Tensor:
    grey = tf.cast(tf.image.rgb_to_grayscale(image), tf.float32)
    return photometric.blend(image, grey, factor)

  def contrasted(image: Tensor, factor: Tensor) -> Tensor:
    height, width = tf.unstack(tf.shape(image)[:2])
    start = tf.minimum(height * width // 256, 255)
    return photometric.blend(image, start, factor)

  def cut_out(
    image: Tensor, level: Tensor, sign: Tensor, place: Tensor
  ) -> Tensor:
    half = tf.cast(level * _CUTOUT, tf.int32)
    sides = tf.shape(image)[:2]
    middle = tf.cast(place * tf.cast(sides, tf.float32), tf.int32)
    rows, columns = (
      tf.abs(2 * (tf.range(sides[axis]) - middle[axis]) + 1) < 2 * half
      for axis in (0, 1)
    )
    hole = rows[:, None] & columns[None, :]
    return tf.where(hole[..., None], tf.constant(_GREY, tf.uint8), image)

  return _apply(
    pixels,
    draws,
    {
      "AutoContrast": _without_level(photometric.autocontrast),
      "Equalize": _without_level(photometric.equalize),
      "Invert": _without_level(photometric.invert),
      "Rotate": moved(
        lambda amount, shape: geometric.rotation(
          amount * math.radians(30), shape
        )
      ),
      "Posterize": posterized,
      "Solarize": solarized,
      "Color": enhanced(colored),
      "Contrast": enhanced(contrasted),
      "Brightness": enhanced(photometric.brightness),
      "Sharpness": enhanced(photometric.sharpness),
      "ShearX": moved(
        lambda amount, shape: [1, amount * 0.3, 0, 0, 1, 0, 0, 0]
      ),
      "ShearY": moved(
        lambda amount, shape: [1, 0, 0, amount * 0.3, 1, 0, 0, 0]
      ),
      "TranslateX": moved(
        lambda amount, shape: [1, 0, amount * _TRANSLATION, 0, 1, 0, 0, 0]
      ),
      "TranslateY": moved(
        lambda amount, shape: [1, 0, 0, 0, 1, amount * _TRANSLATION, 0, 0]
      ),
      "Cutout": cut_out,
      "SolarizeAdd": _solarized_add,
    },
    BIG_VISION_OPS,
  )


def _without_level(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
  return lambda image, *_: function(image)


def _solarized_add(image: Tensor, level: Tensor, *_: Tensor) -> Tensor:
  return photometric.solarize_add(image, tf.cast(level * 110, tf.int32))


def _apply(
  pixels: Tensor,
  draws: Draws,
  ops: dict[str, Callable[..., Tensor]],
  order: tuple[str, ...],
) -> Tensor:
  """Applies one op for each draw; levels are tenths of magnitudes."""
  levels = draws.magnitude / MAX_MAGNITUDE
  shape = pixels.shape

  def after(number: int, pixels: Tensor) -> Tensor:
    given = levels[number], draws.sign[number], draws.place[number]

    def branch(name: str) -> Callable[[], Tensor]:
      return lambda: ops[name](pixels, *given)

    branches = {place: branch(name) for place, name in enumerate(order)}
    result = tf.switch_case(
      draws.op[number], branches, lambda: tf.identity(pixels)
    )
    return tf.ensure_shape(result, shape)

  for number in range(draws.op.shape[0]):
    pixels = after(number, pixels)
  return pixels
