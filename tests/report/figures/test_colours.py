"""Colour maps whose steps look equal, by CIELAB, another space than theirs."""

import numpy as np

from vit_jax.report.figures import colours

_TO_XYZ = np.array(
  [
    [0.4124, 0.3576, 0.1805],
    [0.2126, 0.7152, 0.0722],
    [0.0193, 0.1192, 0.9505],
  ]
)


def cielab(rgb):
  """CIE 1976 L*, a*, b* of sRGB bytes, white D65."""
  encoded = rgb / 255
  high = ((encoded + 0.055) / 1.055) ** 2.4
  linear = np.where(encoded <= 0.04045, encoded / 12.92, high)
  xyz = linear @ _TO_XYZ.T / _TO_XYZ.sum(axis=1)
  low = xyz * (29 / 6) ** 2 / 3 + 4 / 29
  f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), low)
  x, y, z = f.T
  return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def test_the_sequential_map_brightens_throughout():
  lightness = cielab(colours.sequential(np.linspace(0, 1, 64)))[:, 0]
  assert (np.diff(lightness) > 0).all()
  assert lightness[0] < 15 and lightness[-1] > 90


def test_the_sequential_maps_steps_look_alike():
  lab = cielab(colours.sequential(np.linspace(0, 1, 17)))
  steps = np.linalg.norm(np.diff(lab, axis=0), axis=1)
  assert steps.max() < 2 * steps.min()


def test_the_diverging_map_is_lightest_in_the_middle_and_equal_on_both_sides():
  values = np.linspace(-1, 1, 33)
  lightness = cielab(colours.diverging(values))[:, 0]
  assert (np.diff(lightness[:17]) > 0).all()
  assert (np.diff(lightness[16:]) < 0).all()
  np.testing.assert_allclose(lightness, lightness[::-1], atol=6)
  middle = cielab(colours.diverging(np.zeros(1)))[0]
  assert middle[0] > 94 and np.abs(middle[1:]).max() < 3


def test_values_beyond_the_ends_have_the_ends_colours():
  ends = colours.sequential(np.array([0.0, 1.0]))
  np.testing.assert_array_equal(colours.sequential(np.array([-1.0, 2.0])), ends)
  assert colours.diverging(np.zeros((2, 3))).shape == (2, 3, 3)


def test_colours_of_series_are_distinct_and_darken():
  names = colours.series(6)
  rgb = np.array([list(bytes.fromhex(name[1:])) for name in names])
  lightness = cielab(rgb)[:, 0]
  assert len(set(names)) == 6
  assert (np.diff(lightness) < -5).all()
  # All are seen on white.
  assert lightness.max() < 85
