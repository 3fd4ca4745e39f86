import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.data import features, spec


@pytest.fixture
def flip():
  """The device ops of a string on images of 8 x 8 pixels, by key."""
  declared = features.of_images(spec.parse("decode|resize|flip_lr", 8))

  def apply(batch, key):
    names = []
    result = declared.on_device(batch, lambda name: names.append(name) or key)
    assert names == ["flip_lr"]
    return result

  return jax.jit(apply)


def test_flip_mirrors_about_half_of_the_images(flip):
  images = jax.random.randint(jax.random.key(0), (400, 8, 8, 3), 0, 256)
  images = images.astype(jnp.uint8)
  label = jnp.arange(400)
  batch = flip({"image": images, "label": label}, jax.random.key(1))
  same = (batch["image"] == images).all((1, 2, 3))
  mirrored = (batch["image"] == images[:, :, ::-1]).all((1, 2, 3))
  assert (same ^ mirrored).all()
  assert 150 < mirrored.sum() < 250
  assert np.array_equal(batch["label"], label)
  assert batch["image"].dtype == jnp.uint8


def test_flip_depends_on_the_key_alone(flip):
  images = jax.random.randint(jax.random.key(0), (64, 8, 8, 3), 0, 256)
  batch = {"image": images.astype(jnp.uint8)}
  once, again = (flip(batch, jax.random.key(1))["image"] for _ in range(2))
  other = flip(batch, jax.random.key(2))["image"]
  assert np.array_equal(once, again)
  assert not np.array_equal(once, other)
