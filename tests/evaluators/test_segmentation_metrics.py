"""Counts of pixels and what is made of them, against a confusion matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.evaluators import segmentation_metrics


def _confusion(label, predicted, num_classes):
  """Counted pixel by pixel: rows are labels, columns predictions."""
  matrix = np.zeros((num_classes, num_classes), int)
  for row, column in zip(label.ravel(), predicted.ravel(), strict=True):
    if row != 255:
      matrix[row, column] += 1
  return matrix


def _example(num_classes=5, seed=0, present=(0, 1, 3)):
  rng = np.random.default_rng(seed)
  label = rng.choice(present, (3, 6, 6)).astype(np.uint8)
  label[rng.random(label.shape) < 0.3] = 255
  predicted = rng.integers(0, num_classes, label.shape)
  return label, predicted


def _counts(predicted, label, num_classes):
  found = jax.jit(segmentation_metrics.counts, static_argnums=2)(
    jnp.asarray(predicted), jnp.asarray(label), num_classes
  )
  return np.asarray(found)


def test_counts_are_those_of_a_confusion_matrix():
  label, predicted = _example()
  matrix = _confusion(label, predicted, 5)
  wanted = [np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)]
  np.testing.assert_array_equal(_counts(predicted, label, 5), wanted)


@pytest.mark.parametrize("highest", [3, 5])
def test_metrics_are_those_of_a_confusion_matrix(highest):
  # With `highest` = 3 the class 4 is neither labelled nor predicted.
  label, predicted = _example()
  predicted = predicted % (highest + 1)
  predicted[predicted > 4] = 4
  matrix = _confusion(label, predicted, 5)
  ious, accuracies = [], []
  for one in range(5):
    union = matrix[one].sum() + matrix[:, one].sum() - matrix[one, one]
    if union:
      ious.append(matrix[one, one] / union)
    if matrix[one].sum():
      accuracies.append(matrix[one, one] / matrix[one].sum())
  assert (len(ious), len(accuracies)) == (min(highest, 4) + 1, 3)
  found = segmentation_metrics.measure(_counts(predicted, label, 5))
  assert found == pytest.approx(
    {
      "miou": np.mean(ious),
      "pixel_accuracy": np.trace(matrix) / matrix.sum(),
      "class_accuracy": np.mean(accuracies),
    }
  )


def test_predictions_of_unlabelled_pixels_do_not_count():
  label, predicted = _example()
  other = np.where(label == 255, (predicted + 1) % 5, predicted)
  assert (other != predicted).any()
  np.testing.assert_array_equal(
    _counts(predicted, label, 5), _counts(other, label, 5)
  )


def test_what_is_all_right_has_metrics_of_one():
  label, _ = _example()
  predicted = np.where(label == 255, 2, label).astype(int)
  found = segmentation_metrics.measure(_counts(predicted, label, 5))
  assert set(found.values()) == {1.0}
