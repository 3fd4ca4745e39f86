"""Bytes to network inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from vit_jax.errors import UserError
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


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16, bool])
def test_other_integers_are_refused(dtype):
  images = np.ones((1, 2, 2, 3), dtype)
  with pytest.raises(UserError, match=f"{np.dtype(dtype)} are neither bytes"):
    normalize(images, "imagenet")


@pytest.mark.parametrize("name", ["ViT-mu/16", "Swin-T", "ConvNeXtV2-atto"])
def test_channels_that_come_first_are_said_to(name):
  model, params = vit_jax.create_model(name, num_classes=2, image_size=64)
  images = np.zeros((2, 3, 64, 64), np.uint8)
  with pytest.raises(UserError, match=r"give images\.transpose\(0, 2, 3, 1\)"):
    model.apply({"params": params}, images)


def test_floats_of_0_to_255_are_warned_of_once(caplog):
  kind = "0.5,0.5,0.5/0.5,0.5,0.25"  # No other test's.
  images = np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 2, 2, 3)
  normalize(images, kind)
  assert not caplog.messages
  for _ in range(2):
    normalize(np.full((1, 2, 2, 3), 255, np.float32), kind)
  (message,) = caplog.messages
  assert "their values reach 255 where pixels then have 2 at most" in message


def test_floats_may_be_constants_of_a_traced_function():
  images = np.full((1, 2, 2, 3), 0.25, np.float32)
  for constant in (images, jnp.asarray(images), jnp.bfloat16(images)):
    result = jax.jit(
      lambda constant=constant: normalize(constant, "imagenet")
    )()
    np.testing.assert_array_equal(result, images)
