"""Weights that bring positions to another grid."""

import numpy as np
import pytest

from vit_jax.models.layers import position_resize

# Of torch 2.13's interpolate(mode="bicubic", scale_factor=(3.1 / 3, ...)).
THREE_TO_THREE = (
  (1.0117100477, -0.0117100002, 0.0),
  (0.0379900001, 0.9948740005, -0.0328629985),
  (-0.0044840002, 0.0695839971, 0.9349009991),
)


def keys_kernel(x, a=-0.75):
  """Table 1 of Keys (1981), with PyTorch's parameter."""
  x = abs(x)
  if x <= 1:
    return (a + 2) * x**3 - (a + 3) * x**2 + 1
  return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


@pytest.mark.parametrize(
  ("old", "new"), [(14, 6), (37, 16), (16, 37), (5, 5), (3, 1), (1, 4)]
)
def test_the_offset_stretches_the_new_places(old, new):
  # Whole places, at which rounding decides, come about for none of these.
  wanted = np.zeros((new, old))
  for i in range(new):
    place = (i + 0.5) * old / (new + 0.1) - 0.5
    for j in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
      wanted[i, min(max(j, 0), old - 1)] += keys_kernel(place - j)
  found = position_resize.matrix(old, new, "bicubic_offset")
  np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_the_offset_is_that_of_torch():
  found = position_resize.matrix(3, 3, "bicubic_offset")
  np.testing.assert_allclose(found, THREE_TO_THREE, atol=1e-6)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "bicubic_antialias"])
def test_other_methods_leave_a_side_that_stays(method):
  found = position_resize.matrix(14, 14, method)
  np.testing.assert_allclose(found, np.eye(14), atol=1e-12)
