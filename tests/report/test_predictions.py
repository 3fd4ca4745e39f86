import numpy as np
import pytest

from vit_jax.report import predictions, run


def evaluation(labels, prediction, probability=None, counts=None):
  labels = np.asarray(labels)
  return run.Evaluation(
    name="test",
    step=1,
    classes=("cat", "dog", "cow"),
    predictions=run.Predictions(
      example_id=np.arange(len(labels)),
      labels=labels if labels.ndim == 2 else labels[:, None],
      prediction=np.asarray(prediction),
      probability=np.asarray(
        np.ones(len(labels)) if probability is None else probability
      ),
    ),
    confusion=counts,
    examples=(),
  )


def test_pairs_are_counted_and_ordered():
  found = evaluation([0, 0, 0, 1, 1, 2], [1, 1, 0, 1, 2, 2])
  pairs = predictions.confused_pairs(found)
  assert pairs == [
    predictions.Pair("cat", "dog", 2, 2 / 3),
    predictions.Pair("dog", "cow", 1, 0.5),
  ]


def test_recorded_counts_and_predictions_agree():
  rng = np.random.default_rng(0)
  labels, prediction = rng.integers(0, 3, (2, 200))
  counts = np.zeros((3, 3), np.int64)
  np.add.at(counts, (labels, prediction), 1)
  assert predictions.counts(
    evaluation(labels, prediction, counts=counts)
  ) == predictions.counts(evaluation(labels, prediction))


def test_every_class_counts_alike_in_the_mean_over_classes():
  found = evaluation([0, 0, 0, 1, 1, 2], [1, 1, 0, 1, 2, 2])
  mean = predictions.mean_class_accuracy(found)
  assert mean == pytest.approx((1 / 3 + 1 / 2 + 1) / 3)
  sets = evaluation([[0, 1], [2, -1]], [2, 2])
  assert predictions.mean_class_accuracy(sets) is None


def test_the_commonest_class_is_told_where_classes_are_imbalanced():
  found = evaluation([1] * 6 + [0, 2], [1] * 8)
  assert predictions.commonest_class(found) == ("dog", 0.75)
  found = evaluation([0, 0, 1, 1, 2], [0] * 5)
  assert predictions.commonest_class(found) is None
  sets = evaluation([[0, 1], [1, -1]], [0, 0])
  assert predictions.commonest_class(sets) is None


def test_label_sets_have_no_pairs():
  assert predictions.confused_pairs(evaluation([[0, 1], [2, -1]], [2, 2])) == []


def test_calibration_is_that_of_its_bins():
  found = evaluation(
    [0, 0, 0, 0], [0, 1, 0, 0], probability=[0.62, 0.68, 0.9, 1.0]
  )
  bins = predictions.calibration(found.predictions)
  assert [b.num_examples for b in bins] == [2, 2]
  assert [b.accuracy for b in bins] == [0.5, 1.0]
  assert [b.confidence for b in bins] == pytest.approx([0.65, 0.95])
  error = predictions.calibration_error(bins)
  assert error == pytest.approx((0.15 + 0.05) / 2)
