"""Pictures of attention."""

import io

import numpy as np
from PIL import Image

from vit_jax.report.figures import canvas
from vit_jax.report.inspection import attention_figures

RNG = np.random.default_rng(0)
PHOTOS = [RNG.integers(0, 256, (16, 16, 3), np.uint8) for _ in range(8)]


def drawn(figure):
  """The picture, one pixel a point."""
  with Image.open(io.BytesIO(figure.canvas.png())) as image:
    return np.asarray(image.reduce(canvas.SCALE)).astype(int)


def test_a_distance_is_drawn_higher_the_larger_it_is():
  def height(value):
    distances = np.full((3, 2, 4), value)
    figure = attention_figures.distance(distances, 10.0, 224)
    picture = drawn(figure)
    accent = (picture[..., 0] > 170) & (picture[..., 2] < 60)
    return np.argwhere(accent)[:, 0].max()

  assert height(8.0) < height(4.0) < height(1.0)


def test_distances_are_means_over_images():
  distances = np.stack([np.zeros((2, 4)), np.full((2, 4), 6.0)])
  figure = attention_figures.distance(distances, 10.0, 224)
  same = attention_figures.distance(np.full((2, 2, 4), 3.0), 10.0, 224)
  np.testing.assert_array_equal(drawn(figure), drawn(same))
  assert "2 images" in figure.caption and "224 × 224" in figure.caption


def test_many_images_stand_in_bands():
  maps = RNG.random((8, 2, 2))
  few = attention_figures.rollout(PHOTOS[:6], maps[:6]).canvas
  many = attention_figures.rollout(PHOTOS, maps).canvas
  assert many.width == few.width
  assert 1.9 * few.height < many.height < 2.1 * few.height


def test_a_hundred_and_more_heads_are_all_there():
  figure = attention_figures.heads(
    RNG.random((32, 16, 3, 3)), 7, "the cls token"
  )
  assert figure.name == "attention_heads_07"
  assert "32 layers of 16 heads" in figure.caption
  assert "the cls token" in figure.caption
  picture = drawn(figure)
  assert picture.shape[0] > 32 * 24 and picture.shape[1] < 760


def test_figures_over_training_name_their_steps_and_images():
  steps = [100, 2500]
  distance = attention_figures.distance_over_training(
    steps, RNG.random((2, 4)), 3.0, num_images=9
  )
  assert "9 images" in distance.caption
  maps = RNG.random((2, 3, 2, 2))
  rollout = attention_figures.rollout_over_training(PHOTOS[:3], steps, maps)
  assert rollout.numbers["training_rollout"] is maps
  names = {distance.name, rollout.name}
  assert names == {"training_attention_distance", "training_rollout"}
