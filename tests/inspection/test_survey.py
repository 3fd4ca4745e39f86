"""Looking at a number of images, and keeping little of them."""

import jax.numpy as jnp
import numpy as np

from vit_jax.inspection import survey
from vit_jax.inspection.observation import Attention, Observation


def observe(params, image):
  """An observation full of the image's first byte, times the parameter."""
  value = params * image[0, 0, 0]
  attention = Attention(
    jnp.full((3, 2), value), jnp.full((3, 2, 1, 1), value), value[None, None]
  )
  return Observation(jnp.full((1, 1, 4), value), attention)


def images(count):
  return [np.full((2, 2, 3), n % 256, np.uint8) for n in range(count)]


def test_all_images_count_and_the_first_are_shown():
  found = survey.survey(observe, np.float32(2), images(5), num_shown=2)
  assert found.distances.shape == (5, 3, 2)
  np.testing.assert_array_equal(found.distances[:, 0, 0], [0, 2, 4, 6, 8])
  np.testing.assert_array_equal(found.rollout.ravel(), [0, 2])
  assert found.heads.shape == (2, 3, 2, 1, 1)
  assert found.tokens.shape == (5, 1, 1, 4)


def test_features_are_kept_of_so_many_images_only():
  count = survey.MAX_FEATURES + 3
  found = survey.survey(observe, np.float32(1), images(count), num_shown=1)
  assert len(found.tokens) == survey.MAX_FEATURES
  assert len(found.distances) == count


def test_a_network_without_attention_has_features_only():
  def look(params, image):
    return Observation(observe(params, image).tokens, None)

  found = survey.survey(look, np.float32(1), images(3), num_shown=2)
  assert found.distances is found.rollout is found.heads is None
  assert len(found.tokens) == 3
