"""Pictures of position embeddings."""

import io

import numpy as np
import pytest
from PIL import Image

from vit_jax.report.figures import canvas
from vit_jax.report.inspection import position_figures


def drawn(figure):
  """The picture, one pixel a point."""
  with Image.open(io.BytesIO(figure.canvas.png())) as image:
    return np.asarray(image.reduce(canvas.SCALE)).astype(int)


@pytest.mark.parametrize(
  "side, words", [(4, "every patch"), (37, "14 × 14 of")]
)
def test_large_grids_show_some_of_their_patches(side, words):
  similarity = np.broadcast_to(0.5, (side, side, side, side))
  figure = position_figures.draw(similarity)
  assert words in figure.caption
  assert figure.canvas.width < 640


def test_the_mosaic_has_the_map_of_a_patch_at_its_place():
  similarity = -np.ones((2, 2, 2, 2))
  similarity[0, 1] = 1  # Only the upper right patch is like all.
  picture = drawn(position_figures.draw(similarity))
  is_red = (picture[..., 0] > 100) & (picture[..., 2] < 70)
  is_blue = (picture[..., 2] > 100) & (picture[..., 0] < 70)
  # The bar at the right has both colours.
  red = np.argwhere(is_red[:, : picture.shape[1] - 80])
  blue = np.argwhere(is_blue[:, : picture.shape[1] - 80])
  assert red[:, 1].min() > np.median(blue[:, 1])
  assert red[:, 0].max() < np.median(blue[:, 0])


def test_steps_are_lines_by_distance():
  by_distance = np.array([[1.0, 0.1, 0.0], [1.0, 0.6, 0.2]])
  figure = position_figures.over_training([100, 2500], by_distance)
  assert figure.name == "training_position_similarity"
  assert figure.numbers["training_position_similarity"] is by_distance
