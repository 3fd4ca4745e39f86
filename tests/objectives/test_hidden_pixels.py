"""Targets of masked autoencoders, and the patches that they see."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.objectives import hidden_pixels

targets = functools.partial(
  hidden_pixels.targets, patch_size=4, grid=2, normalization="minus_one_to_one"
)


def test_a_quarter_of_the_patches_stays_visible_each_as_often():
  draw = jax.jit(hidden_pixels.draw, static_argnums=(1, 2, 3))
  visible = np.asarray(draw(jax.random.key(0), 2000, 16, 4))
  assert all(len(set(row)) == 4 for row in visible)
  shares = np.bincount(visible.ravel(), minlength=16) / 2000
  assert np.abs(shares - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 2000)


def test_pixels_are_normalised_by_the_variance_of_a_sample():
  images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
  found = targets(jnp.asarray(images), normalize_patches=True)
  patch = (images[1, :4, 4:].reshape(-1).astype(np.float64) - 127.5) / 127.5
  wanted = (patch - patch.mean()) / np.sqrt(patch.var(ddof=1) + 1e-6)
  np.testing.assert_allclose(found[1, 1], wanted, rtol=1e-4, atol=1e-5)


def test_pixels_may_be_predicted_as_they_are():
  images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
  found = targets(jnp.asarray(images), normalize_patches=False)
  wanted = (images[1, 4:, :4].reshape(-1) - 127.5) / 127.5
  np.testing.assert_allclose(found[1, 2], wanted, rtol=1e-5, atol=1e-5)
