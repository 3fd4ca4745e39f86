"""Reconstructions that a checkpoint's decoder draws."""

import dataclasses

import numpy as np
import pytest

from vit_jax.config import named_sections
from vit_jax.inspection import reconstruction
from vit_jax.pretrained import reading


@pytest.fixture(scope="module")
def weights(repo):
  return reading.read(str(repo / "tests" / "golden" / "mae_pretraining"))


@pytest.fixture(scope="module")
def images():
  rng = np.random.default_rng(0)
  return list(rng.integers(0, 256, (3, 16, 16, 3), np.uint8))


def test_a_quarter_of_the_patches_is_seen_and_stays(weights, images):
  masked, drawn, losses = reconstruction.reconstruct(weights, images)
  for image, seen, whole in zip(images, masked, drawn, strict=True):
    patches = [
      (slice(row, row + 4), slice(column, column + 4))
      for row in range(0, 16, 4)
      for column in range(0, 16, 4)
    ]
    visible = [p for p in patches if (seen[p] == image[p]).all()]
    assert len(visible) == 4
    for patch in patches:
      if patch in visible:
        np.testing.assert_array_equal(whole[patch], image[patch])
      else:
        assert (seen[patch] == 128).all()
  assert losses.shape == (3,) and (losses > 0).all()


@pytest.mark.parametrize("name", ["dino", "dinov2", "beit"])
def test_objectives_that_draw_nothing_are_not_asked(name, weights, images):
  """Their teachers and tokenizers need not be there."""
  objective = named_sections.section("objective", name=name)
  other = dataclasses.replace(
    weights, objective=objective, beside={"head": {"kernel": np.zeros(3)}}
  )
  assert reconstruction.reconstruct(other, images) is None


def test_what_is_predicted_has_the_statistics_of_its_patch(weights, images):
  """A decoder that predicts zeros draws the mean of each hidden patch.

  That is the mean of pixels as the network sees them, over all channels.
  """
  decoder = dict(weights.beside["decoder"])
  decoder["prediction"] = {
    name: np.zeros_like(leaf) for name, leaf in decoder["prediction"].items()
  }
  silent = dataclasses.replace(weights, beside={"decoder": decoder})
  masked, drawn, losses = reconstruction.reconstruct(silent, images)
  # Hugging Face's directory says nothing else: MAE's statistics, ImageNet's.
  mean = 255 * np.array([0.485, 0.456, 0.406])
  deviation = 255 * np.array([0.229, 0.224, 0.225])
  image = (images[0] - mean) / deviation
  means = {
    (row, column): image[row : row + 4, column : column + 4].mean()
    for row in range(0, 16, 4)
    for column in range(0, 16, 4)
    if (masked[0][row : row + 4, column : column + 4] == 128).all()
  }
  assert len(means) == 12
  for (row, column), level in means.items():
    found = drawn[0][row : row + 4, column : column + 4].astype(float)
    assert np.abs(found - (level * deviation + mean)).max() <= 0.5001
  # Normalised pixels have a mean square of (n - 1) / n.
  np.testing.assert_allclose(losses, 47 / 48, rtol=1e-3)


@pytest.mark.parametrize("attention", ["pallas", "flash", "cudnn"])
def test_a_run_of_an_accelerators_attention_is_drawn(
  attention, weights, images
):
  """Its kernel need not be there."""
  model = weights.model.updated(attention=attention, remat="full")
  trained = dataclasses.replace(weights, model=model)
  found = reconstruction.reconstruct(trained, images)
  wanted = reconstruction.reconstruct(weights, images)
  for part, other in zip(found, wanted, strict=True):
    np.testing.assert_array_equal(part, other)


def test_a_network_alone_draws_nothing(weights, images):
  alone = dataclasses.replace(weights, beside={})
  assert reconstruction.reconstruct(alone, images) is None
