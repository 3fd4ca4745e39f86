"""Bytes to network inputs."""

import jax.numpy as jnp
import numpy as np

from vit_jax.models.layers.normalize import normalize


def test_bytes_span_minus_one_to_one():
  images = np.array([[[0, 255, 51]]], np.uint8)
  result = normalize(images, "minus_one_to_one")
  np.testing.assert_allclose(result, [[[-1, 1, -0.6]]], atol=1e-6)


def test_imagenet_statistics_give_torchvisions_numbers():
  images = np.array([[[0, 128, 255]]], np.uint8)
  x = images / 255
  expected = (x - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
  np.testing.assert_allclose(normalize(images, "imagenet"), expected, rtol=1e-5)


def test_numbers_of_ones_own_are_of_pixels_between_0_and_1():
  images = np.array([[[0, 51, 255]]], np.uint8)
  result = normalize(images, "0.1,0.2,0/0.5,0.25,1")
  np.testing.assert_allclose(result, [[[-0.2, 0, 1]]], atol=1e-6)


def test_floats_count_as_normalised_and_are_cast():
  images = np.full((1, 2, 2, 3), 0.25, np.float32)
  result = normalize(images, "imagenet", "bfloat16")
  assert result.dtype == jnp.bfloat16
  np.testing.assert_array_equal(np.asarray(result, np.float32), images)
