"""Compiled functions of pixels, and the same ones where they are not."""

import numpy as np
import pytest

from vit_jax.data import fused, geometric, photometric
from vit_jax.data.tf_import import tf

FILL = (124, 116, 104)
FUNCTIONS = {
  "blend": lambda x: photometric.blend(x, 40.0, 1.7),
  "color": lambda x: photometric.color(x, 0.3),
  "contrast": lambda x: photometric.contrast(x, 1.9),
  "hue": lambda x: photometric.hue(x, -0.2),
  "blur": lambda x: photometric.gaussian_blur(x, 1.3, largest_radius=2.0),
  "sharpness": lambda x: photometric.sharpness(x, 0.1),
  "autocontrast": photometric.autocontrast,
  "equalize": photometric.equalize,
  "solarize_add": lambda x: photometric.solarize_add(x, 60),
}
MAPS = {
  "rotate": lambda x: geometric.rotate(x, 17.0, "bicubic", FILL),
  "shear_x": lambda x: geometric.shear_x(x, 0.2, "bilinear", FILL),
  "translate_y": lambda x: geometric.translate_y(x, -0.3, "bicubic", FILL),
}


@pytest.fixture(scope="module")
def picture():
  return np.random.default_rng(0).integers(0, 256, (40, 32, 3), np.uint8)


def of_unknown_size(function, picture):
  spec = tf.TensorSpec((None, None, 3), tf.uint8)
  return tf.function(function, [spec], autograph=False)(picture).numpy()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_colours_are_the_same_where_the_size_is_unknown(name, picture):
  compiled = FUNCTIONS[name](picture).numpy()
  np.testing.assert_array_equal(
    compiled, of_unknown_size(FUNCTIONS[name], picture)
  )


@pytest.mark.parametrize("name", MAPS)
def test_maps_differ_by_a_level_of_few_pixels_at_most(name, picture):
  """XLA may join a product and a sum, and so round once."""
  compiled = MAPS[name](picture).numpy().astype(int)
  difference = np.abs(compiled - of_unknown_size(MAPS[name], picture))
  assert difference.max() <= 1
  assert np.mean(difference > 0) < 1e-3


def test_it_is_traced_once_for_all_numbers(picture):
  traced = []

  @fused.fused
  def scaled(pixels, factor):
    traced.append(pixels.shape)
    return tf.cast(pixels, tf.float64) * factor

  for factor in (0.5, 2, tf.constant(3.0, tf.float64)):
    np.testing.assert_array_equal(
      scaled(picture, factor), picture * float(factor)
    )
  assert traced == [picture.shape]
