"""Ridge regression against oracles written another way."""

import numpy as np
import pytest
from sklearn import linear_model

from vit_jax.evaluators import ridge


def _blobs(num_examples, num_features, *, num_classes=4, spread=1.5, seed=0):
  """Gaussian classes that overlap enough for mistakes."""
  rng = np.random.default_rng(seed)
  centres = np.random.default_rng(99).normal(size=(num_classes, num_features))
  labels = np.arange(num_examples) % num_classes
  noise = rng.normal(scale=spread, size=(num_examples, num_features))
  scale = 1 + 5 * np.arange(num_features) / num_features
  return ((centres[labels] + noise) * scale + 3).astype(np.float32), labels


def _whitened(features, by):
  mean, std = by.astype(np.float64).mean(0), by.astype(np.float64).std(0)
  x = (features - mean) / (std + 1e-5)
  return np.concatenate([x, np.full((len(x), 1), 100.0)], axis=1)


def _normal_equations(features, labels, l2, num_classes=4):
  x = _whitened(features, features)
  y = 2 * np.eye(num_classes)[labels] - 1
  return np.linalg.solve(x.T @ x + l2 * np.eye(x.shape[1]), x.T @ y)


# More examples than features is the primal form, fewer the dual one; 23
# features and the bias make the square case.
@pytest.mark.parametrize("num_examples", [12, 23, 24, 25, 120])
@pytest.mark.parametrize("l2", [2.0**-10, 1.0, 2.0**10])
def test_weights_solve_the_normal_equations(num_examples, l2):
  features, labels = _blobs(num_examples, 23)
  factors = ridge.factorize(features, labels, num_classes=4)
  np.testing.assert_allclose(
    factors.weights(l2), _normal_equations(features, labels, l2), atol=1e-7
  )


@pytest.mark.parametrize("num_examples", [16, 200])
def test_predictions_equal_those_of_scikit_learn(num_examples):
  features, labels = _blobs(num_examples, 40)
  test_features, _ = _blobs(3000, 40, seed=1)
  oracle = linear_model.Ridge(alpha=64.0, fit_intercept=False, solver="svd")
  oracle.fit(_whitened(features, features), 2 * np.eye(4)[labels] - 1)
  expected = np.argmax(
    oracle.predict(_whitened(test_features, features)), axis=1
  )
  factors = ridge.factorize(features, labels, num_classes=4)
  predictions = factors.predict(test_features, l2=64.0)
  np.testing.assert_array_equal(predictions, expected)
  assert len(set(predictions)) == 4


def test_accuracy_is_the_share_of_right_predictions():
  features, labels = _blobs(40, 10)
  test_features, test_labels = _blobs(500, 10, seed=1)
  factors = ridge.factorize(features, labels, num_classes=4)
  predictions = factors.predict(test_features, l2=1.0)
  accuracy = factors.accuracy(test_features, test_labels, l2=1.0)
  assert accuracy == np.mean(predictions == test_labels)
  assert 0.5 < accuracy < 1


@pytest.mark.parametrize("num_examples", [12, 120])
def test_affine_change_of_each_feature_changes_nothing(num_examples):
  features, labels = _blobs(num_examples, 20)
  test_features, _ = _blobs(300, 20, seed=1)
  predictions = ridge.factorize(features, labels, num_classes=4).predict(
    test_features, l2=2.0**10
  )
  moved = ridge.factorize(7 * features - 2, labels, num_classes=4)
  np.testing.assert_array_equal(
    moved.predict(7 * test_features - 2, l2=2.0**10), predictions
  )


@pytest.mark.parametrize("num_examples", [12, 120])
def test_feature_that_is_constant_in_the_support_set_is_ignored(num_examples):
  features, labels = _blobs(num_examples, 20)
  test_features, _ = _blobs(300, 20, seed=1)
  expected = ridge.factorize(features, labels, num_classes=4).predict(
    test_features, l2=1.0
  )
  # 0.1 has no exact float32 mean: rounding noise over an std of 1e-5 would be
  # a feature of its own.
  constant = np.full((num_examples, 1), 0.1, np.float32)
  noise = np.random.default_rng(0).normal(size=(300, 1)).astype(np.float32)
  factors = ridge.factorize(
    np.hstack([features, constant]), labels, num_classes=4
  )
  np.testing.assert_array_equal(
    factors.predict(np.hstack([test_features, noise]), l2=1.0), expected
  )


def test_class_imbalance_goes_into_the_bias():
  features = np.zeros((10, 3), np.float32)
  labels = np.array([1] * 7 + [0] * 3)
  factors = ridge.factorize(features, labels, num_classes=2)
  assert set(factors.predict(features, l2=2.0**10)) == {1}


def test_choose_l2_takes_the_most_accurate_candidate():
  features, labels = _blobs(12, 40, spread=3.0)
  held_out, held_out_labels = _blobs(1000, 40, spread=3.0, seed=1)
  factors = ridge.factorize(features, labels, num_classes=4)
  candidates = (2.0**-6, 1.0, 2.0**6, 2.0**12, 2.0**30)
  accuracies = [
    factors.accuracy(held_out, held_out_labels, l2=l2) for l2 in candidates
  ]
  chosen = ridge.choose_l2(
    factors, held_out, held_out_labels, candidates=candidates
  )
  assert accuracies[candidates.index(chosen)] == max(accuracies)
  assert len(set(accuracies)) > 1


def test_choose_l2_prefers_the_largest_of_equals():
  features = np.array([[-1.0], [1.0]], np.float32)
  labels = np.array([0, 1])
  factors = ridge.factorize(features, labels, num_classes=2)
  chosen = ridge.choose_l2(
    factors, features, labels, candidates=(1.0, 4.0, 2.0)
  )
  assert chosen == 4.0
