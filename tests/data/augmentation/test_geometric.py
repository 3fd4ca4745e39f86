"""Affine maps as Pillow's, but for values that fall on a whole level."""

import numpy as np
import pytest
from PIL import Image

from vit_jax.data.augmentation import geometric
from vit_jax.data.tf_import import tf

FILL = (124, 116, 104)
METHODS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
AMOUNTS = (-0.41372, -0.053117, 0.0, 0.271828, 0.4499)


def affine(matrix):
  def apply(image, amount, resample):
    numbers = matrix(amount, *image.size)
    return image.transform(
      image.size, Image.AFFINE, numbers, resample=resample, fillcolor=FILL
    )

  return apply


def rotated(image, amount, resample):
  return image.rotate(60 * amount, resample=resample, fillcolor=FILL)


OPS = {
  "shear_x": affine(lambda a, w, h: (1, a, 0, 0, 1, 0)),
  "shear_y": affine(lambda a, w, h: (1, 0, 0, a, 1, 0)),
  "translate_x": affine(lambda a, w, h: (1, 0, a * w, 0, 1, 0)),
  "translate_y": affine(lambda a, w, h: (1, 0, 0, 0, 1, a * h)),
  "rotate": rotated,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OPS)
def test_a_picture_comes_out_as_pillows(name, method, scene):
  check(name, method, [scene])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OPS)
def test_photographs_come_out_as_pillows(name, method, photographs):
  check(name, method, photographs)


def check(name, method, pictures):
  function = getattr(geometric, name)
  for pixels in pictures:
    for amount in AMOUNTS:
      ours_amount = 60 * amount if name == "rotate" else amount
      ours = function(tf.constant(pixels), ours_amount, method, FILL).numpy()
      image = Image.fromarray(pixels)
      theirs = np.asarray(OPS[name](image, amount, METHODS[method]))
      difference = np.abs(ours.astype(int) - theirs)
      # Values are cut off, and float32 may fall short of a whole level.
      assert difference.max() <= 1, amount
      assert np.mean(difference > 0) < 0.01, amount


def test_a_quarter_turn_in_nearest_pixels_is_exact(smooth):
  pixels = smooth(9, 9)
  matrix = geometric.rotation(tf.constant(np.float32(np.pi / 2)), (9, 9))
  result = geometric.nearest(tf.constant(pixels), matrix, 128.0)
  # Output to input: x' = -y, so that the image turns to the left.
  assert np.array_equal(result.numpy(), np.rot90(pixels))


def test_what_comes_from_outside_is_filled():
  pixels = tf.zeros([4, 4, 3], tf.uint8)
  moved = geometric.translate_x(pixels, 0.5, "bicubic", FILL).numpy()
  assert (moved[:, :2] == 0).all() and (moved[:, 2:] == FILL).all()
  moved = geometric.nearest(pixels, [1, 0, 0, 0, 1, 3, 0, 0], 128.0).numpy()
  assert (moved[:1] == 0).all() and (moved[1:] == 128).all()
