"""Colours of features."""

import numpy as np

from vit_jax.inspection import patch_colours


def tokens(seed=0, images=6, width=8):
  rng = np.random.default_rng(seed)
  spread = np.array([4, 2, 1] + [0.01] * (width - 3))
  return rng.standard_normal((images, 3, 4, width)) * spread


def test_the_three_directions_of_most_variance_are_red_green_and_blue():
  x = tokens()
  pixels = patch_colours.colours(x, patch_colours.basis(x))
  assert pixels.shape == (6, 3, 4, 3)
  for channel in range(3):
    level = pixels[..., channel].ravel().astype(float)
    correlation = np.corrcoef(level, x[..., channel].ravel())[0, 1]
    assert abs(correlation) > 0.95


def test_the_mean_is_grey_and_two_deviations_are_full():
  x = tokens()
  basis = patch_colours.basis(x)
  steps = np.array([-3, -2, 0, 2, 3])[:, None]
  along = basis.mean + steps * basis.deviations[0] * basis.directions[0]
  pixels = patch_colours.colours(along.reshape(1, 1, 5, -1), basis)
  np.testing.assert_allclose(pixels[0, 0, :, 0], [0, 0, 128, 255, 255], atol=1)
  np.testing.assert_allclose(pixels[0, 0, :, 1:], 128, atol=1)


def test_equal_patches_of_two_images_have_the_same_colour():
  x = tokens()
  x[3, 1, 2] = x[0, 0, 0]
  pixels = patch_colours.colours(x, patch_colours.basis(x))
  np.testing.assert_array_equal(pixels[3, 1, 2], pixels[0, 0, 0])


def test_features_of_fewer_than_three_patches_have_colours():
  x = tokens(images=1)[:, :1, :2]
  pixels = patch_colours.colours(x, patch_colours.basis(x))
  assert pixels.shape == (1, 1, 2, 3)
  np.testing.assert_allclose(pixels[..., 2], 128, atol=1)
