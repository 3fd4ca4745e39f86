"""The crops of an image: how they are made, and that they are not alike."""

import numpy as np
import pytest
import tensorflow as tf

from vit_jax.data import host_ops, spec
from vit_jax.data.augmentation import photometric
from vit_jax.data.features import View

OPS = "decode|random_resized_crop(8)|color_jitter(0.4,0.4,0.2,0.1)"
COUNT = 4


@pytest.fixture
def image():
  return np.random.default_rng(0).integers(0, 256, (12, 12, 3), np.uint8)


def views(image, row):
  """The view `local` of one image, uint8 [COUNT, 8, 8, 3], in a graph."""
  view = View("local", spec.parse(OPS, 8), COUNT)
  make = host_ops.HostViews([view], seed=3, is_encoded=False)
  traced = tf.function(lambda image, row: make(image, row), autograph=False)
  return traced(tf.constant(image), tf.constant(row, tf.int64))["local"].numpy()


def test_crops_of_a_view_are_those_of_their_own_random_streams(image):
  made = views(image, 5)
  ops = host_ops.HostOps(spec.parse(OPS, 8), seed=3, is_encoded=False)
  for index, crop in enumerate(made):
    keys = tf.constant(ops.keys(f"local/{index}/"))
    alone = ops.apply(tf.constant(image), tf.constant(5, tf.int64), keys)
    np.testing.assert_array_equal(crop, alone)
  assert len({crop.tobytes() for crop in made}) == COUNT
  assert not np.array_equal(made, views(image, 6))


def test_an_op_is_traced_once_for_all_crops_and_all_places(image, monkeypatch):
  traced = []

  def counted(pixels, shift):
    traced.append(shift)
    return hue(pixels, shift)

  hue = photometric.hue
  monkeypatch.setattr(photometric, "hue", counted)
  views(image, 5)
  assert len(traced) == 1
