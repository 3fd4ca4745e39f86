"""Random erasing beside an independent one, by distribution."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vit_jax.objectives import erasing

HEIGHT, WIDTH, COUNT = 48, 40, 3000


def reference(rng):
  """Height and width of a box, or None, as the paper's algorithm 1."""
  for _ in range(10):
    area = rng.uniform(0.02, 1 / 3) * HEIGHT * WIDTH
    aspect = math.exp(rng.uniform(math.log(0.3), math.log(1 / 0.3)))
    height = round(math.sqrt(area * aspect))
    width = round(math.sqrt(area / aspect))
    if height < HEIGHT and width < WIDTH:
      return height, width
  return None


@pytest.fixture(scope="module")
def boxes():
  found = erasing.erased(
    jax.random.key(0), COUNT, HEIGHT, WIDTH, probability=1.0
  )
  return np.asarray(found)


@pytest.fixture(scope="module")
def sides(boxes):
  """Rows and columns of each box."""
  return boxes.any(2).sum(1), boxes.any(1).sum(1)


def test_every_erased_part_is_one_box(boxes, sides):
  np.testing.assert_array_equal(boxes.sum((1, 2)), sides[0] * sides[1])
  rows = boxes.any(2).astype(int)
  assert (np.abs(np.diff(rows, axis=1)).sum(1) <= 2).all()


def test_areas_and_aspects_are_those_of_the_paper(sides):
  rng = np.random.default_rng(0)
  drawn = [box for box in (reference(rng) for _ in range(COUNT)) if box]
  wanted = np.array(drawn).T
  for function in (np.multiply, np.divide):
    result = stats.ks_2samp(function(*sides), function(*wanted))
    assert result.pvalue > 0.01


def test_places_are_uniform_over_the_room_that_is_left(boxes, sides):
  top = boxes.any(2).argmax(1)
  room = HEIGHT - sides[0]
  jitter = np.random.default_rng(1).random(COUNT)
  share = (top + jitter) / (room + 1)
  assert stats.kstest(share, "uniform").pvalue > 0.01


def test_the_rest_of_the_image_and_other_images_stay():
  images = jnp.asarray(
    np.random.default_rng(0).uniform(10, 11, (400, 16, 16, 3)), jnp.float32
  )
  result = erasing.erase(images, jax.random.key(1), probability=0.25)
  same = np.asarray(result == images)
  np.testing.assert_array_equal(same.all(3), same.any(3))
  erased = ~same.all((1, 2, 3))
  assert erased.mean() == pytest.approx(0.25, abs=0.06)
  noise = np.asarray(result)[~same]
  assert stats.kstest(noise, "norm").pvalue > 0.01
