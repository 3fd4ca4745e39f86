"""Resizing in NumPy, against TensorFlow's."""

import numpy as np
import pytest

from vit_jax.data import numpy_resize, ops_image

SHAPES = [(75, 100), (32, 32), (3, 50), (1, 1), (17, 5)]
SIDES = [(24, 24), (60, 81), (200, 150), (1, 7)]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", ["bilinear", "bicubic", "area"])
def test_every_bit_is_tensorflows(method, antialias):
  rng = np.random.default_rng(0)
  for shape in SHAPES:
    image = rng.integers(0, 256, (*shape, 3), np.uint8)
    for sides in SIDES:
      expected = ops_image.resize_pixels(image, *sides, method, antialias)
      result = numpy_resize.resize(image, *sides, method, antialias)
      np.testing.assert_array_equal(result, expected.numpy())


def test_halves_are_rounded_up_and_overshoot_is_cut_off():
  edge = np.repeat(np.array([[0, 255]], np.uint8), 2, axis=0)[..., None]
  middle = numpy_resize.resize(edge, 1, 1, "bilinear", False)
  assert middle.item() == 128
  sharp = numpy_resize.resize(edge, 2, 16, "bicubic", False)
  assert sharp.min() == 0 and sharp.max() == 255
