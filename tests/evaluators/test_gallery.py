"""Which images are kept, and how small."""

import io

import jax
import numpy as np
import pytest
from PIL import Image

from vit_jax.evaluators import gallery


def _fill(mesh, *, num_examples, correct, probability, batch_size=8):
  """A gallery of images whose pixels say their id."""
  kept = gallery.Gallery(num_examples, mesh)
  for start in range(0, num_examples, batch_size):
    ids = np.arange(start, start + batch_size)
    mask = ids < num_examples
    rows = np.minimum(ids, num_examples - 1)
    images = np.broadcast_to(
      rows.astype(np.uint8)[:, None, None, None], (batch_size, 6, 6, 3)
    )
    kept.offer(
      jax.device_put(images), rows, mask, correct[rows], probability[rows]
    )
  return kept


def _pixel(png):
  image = np.asarray(Image.open(io.BytesIO(png)))
  assert (image == image[0, 0, 0]).all()
  return image[0, 0, 0]


def test_samples_are_evenly_spaced_and_include_both_ends(make_mesh):
  samples = gallery.Gallery(24 * 10 - 9, make_mesh()).samples
  assert samples == list(range(0, 231, 10))


@pytest.mark.parametrize("num_examples", [1, 2, 23, 24, 25, 50])
def test_samples_are_distinct_examples(make_mesh, num_examples):
  samples = gallery.Gallery(num_examples, make_mesh()).samples
  assert len(set(samples)) == len(samples) == min(24, num_examples)
  assert set(samples) <= set(range(num_examples))


def test_mistakes_are_the_most_confident_ones(make_mesh):
  rng = np.random.default_rng(0)
  correct = rng.random(200) < 0.6
  probability = rng.permutation(200).astype(np.float32) / 200
  kept = _fill(
    make_mesh(), num_examples=200, correct=correct, probability=probability
  )
  wrong = np.flatnonzero(~correct)
  expected = wrong[np.argsort(-probability[wrong])][:24]
  assert kept.mistakes == expected.tolist()
  for example in kept.samples + kept.mistakes:
    assert _pixel(kept.png(example)) == example


def test_equal_confidence_keeps_the_first_examples(make_mesh):
  kept = _fill(
    make_mesh(),
    num_examples=100,
    correct=np.zeros(100, bool),
    probability=np.ones(100, np.float32),
  )
  assert kept.mistakes == list(range(24))


def test_padding_and_nan_are_never_kept(make_mesh):
  probability = np.full(13, np.nan, np.float32)
  kept = _fill(
    make_mesh(),
    num_examples=13,
    correct=np.zeros(13, bool),
    probability=probability,
  )
  assert kept.mistakes == []
  assert [_pixel(kept.png(i)) for i in kept.samples] == list(range(13))


def test_large_images_shrink_to_the_longest_side_and_small_ones_stay():
  rng = np.random.default_rng(0)
  large = rng.integers(0, 256, (224, 112, 3), np.uint8)
  assert gallery.thumbnail(large).shape == (96, 48, 3)
  small = rng.integers(0, 256, (8, 8, 3), np.uint8)
  np.testing.assert_array_equal(gallery.thumbnail(small), small)
  grey = rng.integers(0, 256, (8, 8, 1), np.uint8)
  assert gallery.thumbnail(grey).shape == (8, 8, 3)
