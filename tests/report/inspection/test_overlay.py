"""Maps laid on images."""

import numpy as np

from vit_jax.report.inspection import overlay


def test_maps_are_relative_to_their_own_largest_value():
  maps = np.array([[[1.0, 2.0]], [[0.0, 10.0]], [[0.0, 0.0]]])
  np.testing.assert_array_equal(
    overlay.relative(maps), [[[0.5, 1]], [[0, 1]], [[0, 0]]]
  )


def test_a_map_that_is_the_same_everywhere_leaves_the_image():
  image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
  masked = overlay.mask(image, np.full((2, 2), 0.03))
  np.testing.assert_array_equal(masked, image)


def test_an_image_is_dark_where_its_map_is_small():
  image = np.full((8, 8, 3), 200, np.uint8)
  masked = overlay.mask(image, np.array([[1.0, 0.0], [0.0, 0.0]]))
  assert masked[0, 0].tolist() == [200] * 3
  assert masked[-1, -1].tolist() == [0] * 3
  # Between patches it fades.
  assert (np.diff(masked[0, :, 0].astype(int)) <= 0).all()
  assert 0 < masked[0, 4, 0] < 200
