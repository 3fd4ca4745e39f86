"""The patches of an image, as pixels and as tokens."""

import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.objectives import patches


@pytest.mark.parametrize("side", [8, 11])
def test_patches_are_cut_row_by_row_and_leave_the_rest(side):
  images = np.arange(2 * side * side * 3).reshape(2, side, side, 3)
  found = patches.cut(jnp.asarray(images), 4, 2)
  wanted = [
    [image[r : r + 4, c : c + 4] for r in (0, 4) for c in (0, 4)]
    for image in images
  ]
  np.testing.assert_array_equal(found, wanted)
