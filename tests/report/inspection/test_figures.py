"""Figures: what they say, show and hand on."""

import io

import numpy as np
import pytest
from PIL import Image

from vit_jax.report.inspection import canvas, figures

RNG = np.random.default_rng(0)
PHOTOS = [RNG.integers(0, 256, (16, 16, 3), np.uint8) for _ in range(8)]


def drawn(figure):
  """The picture, one pixel a point."""
  with Image.open(io.BytesIO(figure.canvas.png())) as image:
    return np.asarray(image.reduce(canvas.SCALE)).astype(int)


def test_zero_weights_are_grey_and_the_largest_of_a_filter_is_full():
  components = np.zeros((2, 2, 2, 3))
  components[0, 0, 0] = [0.5, -0.5, 0.25]
  pixels = figures.filter_pixels(components)
  assert pixels[0, 0, 0].tolist() == [255, 0, 191]
  assert pixels[0, 1, 1].tolist() == pixels[1, 0, 0].tolist() == [128] * 3


def test_filters_say_how_many_and_how_much_they_hold():
  components = RNG.standard_normal((9, 4, 4, 3))
  shares = np.full(9, 0.1)
  figure = figures.filters(components, shares, 1024)
  assert "first 9 principal" in figure.caption
  assert "1,024 filters" in figure.caption and "90.0%" in figure.caption
  assert figure.numbers["filters"] is components


@pytest.mark.parametrize(
  "side, words", [(4, "every patch"), (37, "14 × 14 of")]
)
def test_large_grids_show_some_of_their_patches(side, words):
  similarity = np.broadcast_to(0.5, (side, side, side, side))
  figure = figures.position_similarity(similarity)
  assert words in figure.caption
  assert figure.canvas.width < 640


def test_the_mosaic_has_the_map_of_a_patch_at_its_place():
  similarity = -np.ones((2, 2, 2, 2))
  similarity[0, 1] = 1  # Only the upper right patch is like all.
  picture = drawn(figures.position_similarity(similarity))
  is_red = (picture[..., 0] > 100) & (picture[..., 2] < 70)
  is_blue = (picture[..., 2] > 100) & (picture[..., 0] < 70)
  # The bar at the right has both colours.
  red = np.argwhere(is_red[:, : picture.shape[1] - 80])
  blue = np.argwhere(is_blue[:, : picture.shape[1] - 80])
  assert red[:, 1].min() > np.median(blue[:, 1])
  assert red[:, 0].max() < np.median(blue[:, 0])


def test_a_distance_is_drawn_higher_the_larger_it_is():
  def height(value):
    distances = np.full((3, 2, 4), value)
    figure = figures.attention_distance(distances, 10.0, 224)
    picture = drawn(figure)
    accent = (picture[..., 0] > 170) & (picture[..., 2] < 60)
    return np.argwhere(accent)[:, 0].max()

  assert height(8.0) < height(4.0) < height(1.0)


def test_distances_are_means_over_images():
  distances = np.stack([np.zeros((2, 4)), np.full((2, 4), 6.0)])
  figure = figures.attention_distance(distances, 10.0, 224)
  same = figures.attention_distance(np.full((2, 2, 4), 3.0), 10.0, 224)
  np.testing.assert_array_equal(drawn(figure), drawn(same))
  assert "2 images" in figure.caption and "224 × 224" in figure.caption


def test_many_images_stand_in_bands():
  maps = RNG.random((8, 2, 2))
  few = figures.rollout(PHOTOS[:6], maps[:6]).canvas
  many = figures.rollout(PHOTOS, maps).canvas
  assert many.width == few.width
  assert 1.9 * few.height < many.height < 2.1 * few.height


def test_a_hundred_and_more_heads_are_all_there():
  figure = figures.heads(RNG.random((32, 16, 3, 3)), 7, "the cls token")
  assert figure.name == "attention_heads_07"
  assert "32 layers of 16 heads" in figure.caption
  assert "the cls token" in figure.caption
  picture = drawn(figure)
  assert picture.shape[0] > 32 * 24 and picture.shape[1] < 760


def test_figures_over_training_name_their_steps():
  steps = [100, 2500]
  maps = RNG.random((2, 3, 2, 2))
  rollout = figures.rollout_over_training(PHOTOS[:3], steps, maps)
  distance = figures.distance_over_training(
    steps, RNG.random((2, 4)), 3.0, num_images=9
  )
  similarity = figures.similarity_over_training(steps, RNG.random((2, 5)))
  filters = figures.filters_over_training(
    steps, [RNG.standard_normal((k, 4, 4, 3)) for k in (28, 28)]
  )
  assert filters.numbers["training_steps"].tolist() == steps
  names = {f.name for f in (rollout, distance, similarity, filters)}
  assert len(names) == 4 and all(n.startswith("training_") for n in names)
  assert "9 images" in distance.caption
