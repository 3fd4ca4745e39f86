"""Logistic regression against closed forms and scikit-learn."""

import logging

import jax
import numpy as np
import pytest
from sklearn import linear_model

from vit_jax.evaluators import logistic
from vit_jax.evaluators.features import Examples

_CLASSES = 4


def _blobs(num_examples, *, seed=0, width=10, spread=1.5):
  """Gaussian classes that overlap; features of different sizes."""
  rng = np.random.default_rng(seed)
  centres = np.random.default_rng(99).normal(size=(_CLASSES, width))
  labels = np.arange(num_examples) % _CLASSES
  noise = rng.normal(scale=spread, size=(num_examples, width))
  sizes = 1 + 5 * np.arange(width) / width
  features = (centres[labels] + noise) * sizes + 3
  return Examples(features.astype(np.float32), labels)


def _regression(mesh, heartbeat=lambda: None, num_classes=_CLASSES):
  return logistic.Regression(num_classes, mesh=mesh, heartbeat=heartbeat)


def _fit(examples, mesh, *, l2=1e-3, max_iterations=1000, **kwargs):
  regression = _regression(mesh)
  placed = regression.place(examples, logistic.Scale.of(examples.features))
  params = regression.fit(
    placed, l2=l2, max_iterations=max_iterations, **kwargs
  )
  return jax.device_get(params)


def _centred(params):
  """A constant added to all classes is no difference."""
  return {k: v - v.mean(axis=1, keepdims=True) for k, v in params.items()}


@pytest.mark.parametrize("l2", [1e-4, 1e-2, 1.0])
def test_the_solution_is_that_of_scikit_learn(make_mesh, l2):
  examples = _blobs(203)
  scaled = logistic.Scale.of(examples.features)(examples.features)
  oracle = linear_model.LogisticRegression(
    C=1 / (l2 * 203), tol=1e-8, max_iter=10_000
  ).fit(scaled.astype(np.float64), examples.labels)
  params = _centred(_fit(examples, make_mesh(), l2=l2))
  np.testing.assert_allclose(params["kernel"], oracle.coef_.T, atol=2e-3)
  bias = oracle.intercept_ - oracle.intercept_.mean()
  np.testing.assert_allclose(params["bias"][0], bias, atol=2e-3)


def test_accuracy_is_that_of_scikit_learn(make_mesh):
  examples, test = _blobs(203), _blobs(1001, seed=1)
  scale = logistic.Scale.of(examples.features)
  oracle = linear_model.LogisticRegression(
    C=1 / 2.03, tol=1e-8, max_iter=10_000
  )
  oracle.fit(scale(examples.features), examples.labels)
  regression = _regression(make_mesh(4))
  with jax.transfer_guard("disallow"):
    params = regression.fit(
      regression.place(examples, scale), l2=1e-2, max_iterations=1000
    )
    accuracy = regression.accuracy(params, regression.place(test, scale))
  expected = oracle.score(scale(test.features), test.labels)
  assert accuracy == pytest.approx(expected, abs=1 / 1001)
  assert 0.5 < accuracy < 1


def test_without_information_the_bias_has_the_shares_of_the_classes(make_mesh):
  labels = np.array([0] * 6 + [1] * 3 + [3])
  examples = Examples(np.full((10, 5), 0.1, np.float32), labels)
  params = _fit(examples, make_mesh())
  shares = np.exp(params["bias"][0]) / np.exp(params["bias"][0]).sum()
  np.testing.assert_allclose(shares, [0.6, 0.3, 0.0, 0.1], atol=1e-3)
  np.testing.assert_allclose(params["kernel"], 0, atol=1e-3)


# 203 examples divide over neither 4 devices nor blocks of 7 rows.
@pytest.mark.parametrize(("num_devices", "block"), [(4, 1000), (1, 7), (4, 7)])
def test_devices_and_blocks_change_nothing(
  make_mesh, monkeypatch, num_devices, block
):
  examples = _blobs(203)
  expected = _fit(examples, make_mesh())
  monkeypatch.setattr(logistic, "_MAX_LOGITS", block * _CLASSES)
  params = _fit(examples, make_mesh(num_devices))
  for name in params:
    np.testing.assert_allclose(params[name], expected[name], atol=2e-3)


def test_blocks_bound_the_logits(make_mesh, monkeypatch):
  monkeypatch.setattr(logistic, "_MAX_LOGITS", 7 * _CLASSES + 1)
  examples = _blobs(203)
  scale = logistic.Scale.of(examples.features)
  placed = _regression(make_mesh(4)).place(examples, scale)
  assert placed.features.shape == (8, 4 * 7, 10)  # 224 rows for 203.
  real = np.asarray(placed.labels) >= 0
  np.testing.assert_array_equal(placed.labels[real], examples.labels)
  np.testing.assert_allclose(placed.features[real], scale(examples.features))


def test_scaled_features_have_mean_0_and_deviation_1(monkeypatch):
  monkeypatch.setattr(logistic, "_SCALED_ROWS", 50)  # 203 in five parts.
  features = _blobs(203).features
  scaled = logistic.Scale.of(features)(features)
  np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
  np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-4)


def test_the_start_changes_the_way_but_not_the_end(make_mesh):
  examples = _blobs(203)
  regression = _regression(make_mesh())
  placed = regression.place(examples, logistic.Scale.of(examples.features))
  params = None
  for l2 in (1.0, 1e-3):
    params = regression.fit(placed, l2=l2, max_iterations=1000, start=params)
  params = _centred(jax.device_get(params))
  expected = _centred(_fit(examples, make_mesh()))
  np.testing.assert_allclose(params["kernel"], expected["kernel"], atol=2e-3)


def test_too_few_iterations_are_warned_of(make_mesh, caplog):
  with caplog.at_level(logging.WARNING):
    _fit(_blobs(203), make_mesh(), l2=1e-6, max_iterations=3)
  assert "l2 = 1e-06 is at a gradient of" in caplog.text
  assert "after 3 iterations; raise max_iterations" in caplog.text


def test_a_long_fit_gives_signs_of_life(make_mesh):
  beats = []
  regression = _regression(make_mesh(), lambda: beats.append(1))
  examples = _blobs(203)
  placed = regression.place(examples, logistic.Scale.of(examples.features))
  regression.fit(placed, l2=1e-6, max_iterations=45)
  assert 1 <= len(beats) <= 3


def test_constant_features_do_no_harm(make_mesh):
  examples = _blobs(203)
  constant = np.full((203, 1), 0.1, np.float32)
  wider = Examples(np.hstack([examples.features, constant]), examples.labels)
  params = _fit(wider, make_mesh())
  np.testing.assert_allclose(
    params["kernel"][:-1], _fit(examples, make_mesh())["kernel"], atol=2e-3
  )
  np.testing.assert_allclose(params["kernel"][-1], 0, atol=1e-2)
