"""Augmentations of images that run on the host; see `ops_image.py`.

Unless their docstring says otherwise, they give the pixels of the programs used
for the published recipes: Pillow, torchvision and timm. An op's random numbers
are one vector, drawn from the seed of the op and the row.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pydantic

from vit_jax.data.augmentation import photometric, rand_augment
from vit_jax.data.ops_image import Image, Positive, Size, Tensor, resize_pixels
from vit_jax.data.registry import register
from vit_jax.data.tf_import import tf

Probability = Annotated[float, pydantic.Field(ge=0, le=1)]
Finite = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Level = Annotated[int, pydantic.Field(ge=0, le=255)]
Interpolation = Literal["bilinear", "bicubic", "lanczos3"]

_NUM_ATTEMPTS = 10  # As in torchvision's random crop.
_MARGIN = 4  # As in DeiT III's simple random crop.
_SOLARIZE_THRESHOLD = 128
# Above it, big_vision's posterize would keep more than 8 bits.
_MAX_BIG_VISION_MAGNITUDE = 20


def _uniform(seed: Tensor, *shape: int) -> Tensor:
  return tf.random.stateless_uniform(shape, seed)


def _sometimes(
  draw: Tensor, p: float, function: Callable[[Tensor], Tensor], pixels: Tensor
) -> Tensor:
  """Applies the function if the draw is less than p."""
  if p == 1:
    return function(pixels)
  result = tf.cond(draw < p, lambda: function(pixels), lambda: pixels)
  return tf.ensure_shape(result, pixels.shape)


def _randaug_check(
  m: float,
  std: float | None,
  increasing: bool,
  interpolation: str,
  fill: tuple[int, int, int],
  **_: Any,
) -> str | None:
  limit = rand_augment.MAX_MAGNITUDE
  if std is not None:
    if m <= limit:
      return None
    return f"m = {m:g} is more than {limit:g}, timm's highest magnitude"
  if m > _MAX_BIG_VISION_MAGNITUDE:
    return (
      f"m = {m:g} is more than {_MAX_BIG_VISION_MAGNITUDE}, the highest"
      " magnitude that big_vision's ops are defined for"
    )
  given = (increasing, interpolation, fill)
  if given != (False, "bicubic", rand_augment.IMAGENET_MEAN):
    return (
      "increasing, interpolation and fill are of timm's form, which has a std;"
      " give one, 0 for constant magnitudes"
    )
  return None


@register("image", check=_randaug_check)
def randaug(
  image: Image,
  seed: Tensor,
  /,
  n: Size,
  m: Finite,
  std: Finite | None = None,
  increasing: bool = False,
  interpolation: rand_augment.Interpolation = "bicubic",
  fill: tuple[Level, Level, Level] = rand_augment.IMAGENET_MEAN,
) -> Tensor:
  """RandAugment with n ops: `randaug(n, m)` is big_vision's, with a std timm's.

  timm's 'rand-m9-mstd0.5-inc1', used to train DeiT, Swin and ConvNeXt, is
  `randaug(2, 9, 0.5, True)`: 15 ops, each skipped with probability one half,
  with magnitude N(m, std) clipped to 0 to 10. `interpolation` "random" is
  bilinear or bicubic, timm's default.

  big_vision's version, used in AugReg, has 16 ops, all applied, and no std; it
  takes nearest pixels and fills with 128, 128, 128.
  """
  pixels = image.pixels()
  if std is None:
    draws = rand_augment.big_vision_draws(seed, n, m)
    return rand_augment.big_vision(pixels, draws)
  return rand_augment.timm(
    pixels,
    rand_augment.timm_draws(seed, n, m, std),
    increasing=increasing,
    interpolation=interpolation,
    fill=fill,
  )


@register("image")
def three_augment(image: Image, seed: Tensor, /) -> Tensor:
  """Applies one of greyscale, solarize(128) and gaussian_blur. [DeiT III]"""
  pixels = image.pixels()
  choice, place = tf.unstack(_uniform(seed, 2))
  low, high = 0.1, 2.0
  radius = low + place * (high - low)
  branches = (
    lambda: photometric.greyscale(pixels),
    lambda: photometric.solarize(pixels, _SOLARIZE_THRESHOLD),
    lambda: photometric.gaussian_blur(pixels, radius, largest_radius=high),
  )
  result = tf.switch_case(tf.cast(choice * len(branches), tf.int32), branches)
  return tf.ensure_shape(result, pixels.shape)


@register("image")
def color_jitter(
  image: Image,
  seed: Tensor,
  /,
  brightness: Finite,
  contrast: Finite,
  saturation: Finite,
  hue: Annotated[float, pydantic.Field(ge=0, le=0.5)] = 0.0,
  p: Probability = 1.0,
) -> Tensor:
  """Changes the components in random order, as torchvision's ColorJitter.

  Factors are drawn from 1 - x to 1 + x, at least 0; the hue is rotated by -x to
  x of the circle. A component of 0 is skipped. Images change with probability
  p.
  """
  pixels = image.pixels()
  parts = [
    (function, max(0.0, middle - amount), middle + amount)
    for function, middle, amount in (
      (photometric.brightness, 1, brightness),
      (photometric.contrast, 1, contrast),
      (photometric.color, 1, saturation),
      (photometric.hue, 0, hue),
    )
    if amount
  ]
  if not parts:
    return pixels
  draws = _uniform(seed, 1 + len(parts) + (p < 1))
  orders = list(itertools.permutations(range(len(parts))))
  order = tf.cast(draws[0] * len(orders), tf.int32)
  shape = pixels.shape

  def change(part: int) -> Callable[[Tensor], Tensor]:
    function, low, high = parts[part]
    factor = low + draws[1 + part] * (high - low)
    # Traced once, not for every place in the order.
    return tf.function(lambda pixels: function(pixels, factor), autograph=False)

  changes = [change(part) for part in range(len(parts))]

  def jittered(pixels: Tensor) -> Tensor:
    for step in range(len(parts)):
      part = tf.gather([numbers[step] for numbers in orders], order)
      pixels = tf.switch_case(
        part, [functools.partial(changed, pixels) for changed in changes]
      )
    return tf.ensure_shape(pixels, shape)

  return _sometimes(draws[-1], p, jittered, pixels)


def _radius_check(radius_min: float, radius_max: float, **_: Any) -> str | None:
  if radius_min > radius_max:
    return f"radius_min = {radius_min} is more than radius_max = {radius_max}"
  return None


@register("image", check=_radius_check)
def gaussian_blur(
  image: Image,
  seed: Tensor,
  /,
  p: Probability = 1.0,
  radius_min: Finite = 0.1,
  radius_max: Annotated[float, pydantic.Field(gt=0, le=50)] = 2.0,
) -> Tensor:
  """Blurs with probability p and uniformly drawn radius, as Pillow's filter."""
  pixels = image.pixels()
  chosen, place = tf.unstack(_uniform(seed, 2))
  radius = radius_min + place * (radius_max - radius_min)

  def blurred(pixels: Tensor) -> Tensor:
    return photometric.gaussian_blur(pixels, radius, largest_radius=radius_max)

  return _sometimes(chosen, p, blurred, pixels)


@register("image")
def solarize(
  image: Image,
  seed: Tensor,
  /,
  threshold: Annotated[int, pydantic.Field(ge=0, le=256)] = _SOLARIZE_THRESHOLD,
  p: Probability = 1.0,
) -> Tensor:
  """Inverts values from the threshold upwards, with probability p."""

  def solarized(pixels: Tensor) -> Tensor:
    return photometric.solarize(pixels, threshold)

  return _sometimes(_uniform(seed, 1)[0], p, solarized, image.pixels())


@register("image")
def greyscale(image: Image, seed: Tensor, /, p: Probability = 1.0) -> Tensor:
  """Sets all channels to the luma, with probability p."""
  draw = _uniform(seed, 1)[0]
  return _sometimes(draw, p, photometric.greyscale, image.pixels())


@register("image")
def simple_random_crop(
  image: Image,
  seed: Tensor,
  /,
  size: Annotated[int, pydantic.Field(gt=_MARGIN)],
  interpolation: Interpolation = "bicubic",
) -> Tensor:
  """Resizes the smaller side to size, reflects 4 pixels, crops. [DeiT III]"""
  pixels = image.pixels()
  sides = tf.shape(pixels)[:2]
  sides = size * sides // tf.reduce_min(sides)
  pixels = resize_pixels(pixels, sides[0], sides[1], interpolation, True)
  margins = [[_MARGIN, _MARGIN], [_MARGIN, _MARGIN], [0, 0]]
  pixels = tf.pad(pixels, margins, mode="REFLECT")
  room = tf.cast(sides + 2 * _MARGIN - size + 1, tf.float32)
  place = tf.cast(_uniform(seed, 2) * room, tf.int32)
  begin = tf.concat([place, [0]], axis=0)
  return tf.slice(pixels, begin, (size, size, 3))


def _ranges_check(**arguments: Any) -> str | None:
  for name in ("scale", "ratio"):
    low, high = arguments[name]
    if low > high:
      return f"{name} = {low, high} is a range that begins after its end"
  return None


@register("image", check=_ranges_check)
def random_resized_crop(
  image: Image,
  seed: Tensor,
  /,
  size: Size,
  scale: tuple[
    Annotated[float, pydantic.Field(gt=0, le=1)],
    Annotated[float, pydantic.Field(gt=0, le=1)],
  ] = (0.08, 1.0),
  ratio: tuple[Positive, Positive] = (3 / 4, 4 / 3),
  interpolation: Interpolation = "bicubic",
) -> Tensor:
  """Crops a random part and resizes it, as torchvision's RandomResizedCrop.

  The part's area is drawn uniformly from `scale`, in fractions of the image's
  area, and its aspect ratio (width over height) from `ratio`, uniformly in the
  logarithm, up to 10 times until it fits; otherwise the largest central part
  with an allowed ratio is taken. Shrinking averages over all pixels, as in
  Pillow and unlike `inception_crop`.
  """
  shape = image.shape()
  window = _random_window(shape[0], shape[1], seed, scale, ratio)
  return resize_pixels(image.crop(window), size, size, interpolation, True)


def _random_window(
  height: Tensor,
  width: Tensor,
  seed: Tensor,
  scale: tuple[float, float],
  ratio: tuple[float, float],
) -> Tensor:
  """Draws int32 [4]: top, left, height, width."""
  draws = _uniform(seed, _NUM_ATTEMPTS, 4)
  whole_height = tf.cast(height, tf.float32)
  whole_width = tf.cast(width, tf.float32)
  area = scale[0] + draws[:, 0] * (scale[1] - scale[0])
  area *= whole_height * whole_width
  low, high = math.log(ratio[0]), math.log(ratio[1])
  aspect = tf.exp(low + draws[:, 1] * (high - low))
  heights = tf.round(tf.sqrt(area / aspect))
  widths = tf.round(tf.sqrt(area * aspect))
  fits = (heights > 0) & (heights <= whole_height)
  fits &= (widths > 0) & (widths <= whole_width)
  first = tf.argmax(tf.cast(fits, tf.int8))  # The first that fits.
  tops = draws[:, 2] * (whole_height - heights + 1)
  lefts = draws[:, 3] * (whole_width - widths + 1)
  drawn = tf.stack([tops, lefts, heights, widths], axis=1)[first]

  central_height = tf.round(tf.minimum(whole_height, whole_width / ratio[0]))
  central_width = tf.round(tf.minimum(whole_width, whole_height * ratio[1]))
  central = tf.stack(
    [
      (whole_height - central_height) / 2,
      (whole_width - central_width) / 2,
      central_height,
      central_width,
    ]
  )
  return tf.cast(tf.where(tf.reduce_any(fits), drawn, central), tf.int32)
