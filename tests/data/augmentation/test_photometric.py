"""Colours as Pillow's, level for level."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from vit_jax.data.augmentation import photometric
from vit_jax.data.tf_import import tf


def solarize_add(image, addition):
  table = [min(255, i + addition) if i < 128 else i for i in range(256)]
  return image.point(table * 3)


def posterize(image, bits):
  if bits == 0:  # Newer Pillows refuse it; older ones answered with black.
    return Image.new("RGB", image.size)
  return ImageOps.posterize(image, bits)


def turn_hue(image, shift):
  """As torchvision's adjust_hue of a Pillow image."""
  hue, saturation, value = image.convert("HSV").split()
  turned = (np.asarray(hue, int) + int(shift * 255)) % 256
  hue = Image.fromarray(turned.astype(np.uint8))
  return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def enhanced(enhancement):
  return lambda image, factor: enhancement(image).enhance(factor)


def blur(pixels, radius):
  return photometric.gaussian_blur(pixels, radius, largest_radius=3.0)


FACTORS = (0.1, 0.37, 0.99, 1.0, 1.234, 1.9)
OPS = {
  "autocontrast": (photometric.autocontrast, ImageOps.autocontrast, [()]),
  "equalize": (photometric.equalize, ImageOps.equalize, [()]),
  "invert": (photometric.invert, ImageOps.invert, [()]),
  "posterize": (photometric.posterize, posterize, [(b,) for b in range(9)]),
  "solarize": (
    photometric.solarize,
    ImageOps.solarize,
    [(0,), (26,), (128,), (255,), (256,)],
  ),
  "solarize_add": (photometric.solarize_add, solarize_add, [(0,), (99,)]),
  "color": (
    photometric.color,
    enhanced(ImageEnhance.Color),
    [(f,) for f in FACTORS],
  ),
  "contrast": (
    photometric.contrast,
    enhanced(ImageEnhance.Contrast),
    [(f,) for f in FACTORS],
  ),
  "brightness": (
    photometric.brightness,
    enhanced(ImageEnhance.Brightness),
    [(f,) for f in FACTORS],
  ),
  "sharpness": (
    photometric.sharpness,
    enhanced(ImageEnhance.Sharpness),
    [(f,) for f in FACTORS],
  ),
  "greyscale": (
    photometric.greyscale,
    lambda image: image.convert("L").convert("RGB"),
    [()],
  ),
  "hue": (photometric.hue, turn_hue, [(-0.5,), (-0.13,), (0.0,), (0.31,)]),
  "gaussian_blur": (
    blur,
    lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)),
    [(0.1,), (0.5,), (1.0,), (1.37,), (2.0,), (2.9,)],
  ),
}


@pytest.mark.parametrize("name", OPS)
def test_a_picture_comes_out_as_pillows(name, scene):
  check(name, [scene])


@pytest.mark.parametrize("name", OPS)
def test_photographs_come_out_as_pillows(name, photographs):
  check(name, photographs)


def check(name, pictures):
  ours, pillows, arguments = OPS[name]
  for pixels in pictures:
    for given in arguments:
      result = ours(tf.constant(pixels), *given)
      assert result.dtype == tf.uint8
      expected = np.asarray(pillows(Image.fromarray(pixels), *given))
      assert np.array_equal(result.numpy(), expected), given


@pytest.mark.parametrize("value", [0, 93, 255])
def test_a_blank_picture_survives_what_divides_by_its_spread(value):
  pixels = np.full((8, 9, 3), value, np.uint8)
  for name in ("autocontrast", "equalize", "hue"):
    function, _, arguments = OPS[name]
    result = function(tf.constant(pixels), *arguments[0])
    assert np.array_equal(result.numpy(), pixels), name
