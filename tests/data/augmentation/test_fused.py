"""Compiled functions of pixels, and the same ones where they are not."""

import os
import subprocess
import sys

import numpy as np
import pytest

from vit_jax.data.augmentation import fused, geometric, photometric
from vit_jax.data.tf_import import tf

FILL = (124, 116, 104)
# Factors of which products and sums that are rounded once would show.
FUNCTIONS = {
  "blend": lambda x: photometric.blend(x, 40.0, 1.7),
  "color": lambda x: photometric.color(x, 1.2),
  "contrast": lambda x: photometric.contrast(x, 0.6),
  "hue": lambda x: photometric.hue(x, -0.2),
  "blur": lambda x: photometric.gaussian_blur(x, 1.3, largest_radius=2.0),
  "sharpness": lambda x: photometric.sharpness(x, 1.6),
  "autocontrast": photometric.autocontrast,
  "equalize": photometric.equalize,
  "solarize_add": lambda x: photometric.solarize_add(x, 60),
  "rotate": lambda x: geometric.rotate(x, 17.0, "bicubic", FILL),
  "shear_x": lambda x: geometric.shear_x(x, 0.2, "bilinear", FILL),
  "translate_y": lambda x: geometric.translate_y(x, -0.3, "bicubic", FILL),
}


@pytest.fixture(scope="module")
def picture():
  return np.random.default_rng(0).integers(0, 256, (96, 80, 3), np.uint8)


def of_unknown_size(function, picture):
  spec = tf.TensorSpec((None, None, 3), tf.uint8)
  return tf.function(function, [spec], autograph=False)(picture).numpy()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pixels_are_the_same_where_the_size_is_unknown(name, picture):
  compiled = FUNCTIONS[name](picture).numpy()
  np.testing.assert_array_equal(
    compiled, of_unknown_size(FUNCTIONS[name], picture)
  )


def test_a_mean_luma_between_two_levels_is_rounded_up():
  """100 grey pixels of 40 and as many of 41: Pillow goes from 41."""
  grey = np.repeat(np.uint8([40, 41]), 100).reshape(20, 10, 1)
  found = photometric.contrast(np.repeat(grey, 3, axis=2), 0.0)
  assert (found.numpy() == 41).all()


def test_flags_that_only_the_xla_of_jax_knows_are_kept_from_it():
  code = """if True:
    import os
    from vit_jax.data.augmentation import photometric
    import numpy as np
    photometric.color(np.zeros((8, 8, 3), np.uint8), 0.5)
    print(os.environ["XLA_FLAGS"])
  """
  flag = "--xla_flag_that_is_not_there=true"
  found = subprocess.run(
    [sys.executable, "-c", code],
    env={**os.environ, "XLA_FLAGS": flag},
    capture_output=True,
    text=True,
  )
  assert (found.returncode, found.stdout.strip()) == (0, flag), found.stderr


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
