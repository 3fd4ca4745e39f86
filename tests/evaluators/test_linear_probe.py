"""The linear probe."""

import dataclasses
import logging

import jax
import numpy as np
import pytest
from sklearn import linear_model, preprocessing

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import linear_probe
from vit_jax.evaluators.features import Examples

_SWEEP = (1e-4, 1e-2, 1.0)


def _blobs(num_examples, *, seed=0, width=40, spread=3.0):
  """More features than help: a weak l2 overfits."""
  rng = np.random.default_rng(seed)
  centres = np.random.default_rng(99).normal(size=(5, width))
  labels = rng.permutation(np.arange(num_examples) % 5)
  noise = rng.normal(scale=spread, size=(num_examples, width))
  return Examples((centres[labels] + noise).astype(np.float32), labels)


def _scikit_learn(train, test, l2):
  scaler = preprocessing.StandardScaler().fit(train.features)
  model = linear_model.LogisticRegression(
    C=1 / (l2 * len(train.labels)), tol=1e-6, max_iter=10_000
  ).fit(scaler.transform(train.features), train.labels)
  return model.score(scaler.transform(test.features), test.labels)


@pytest.fixture
def probe(make_mesh):
  """probe(train, test, ...) -> Result."""

  def run(train, test, **changes):
    arguments = dict(
      num_classes=5,
      l2_sweep=_SWEEP,
      held_out=0.2,
      max_iterations=1000,
      mesh=make_mesh(2),
      heartbeat=lambda: None,
    )
    return linear_probe.probe(train, test, **(arguments | changes))

  return run


def test_the_whole_protocol_is_that_of_scikit_learn(probe):
  train, test = _blobs(250), _blobs(1000, seed=1)
  result = probe(train, test)
  kept, held = linear_probe.divide(train.labels, num_classes=5, held_out=0.2)
  compared = {
    l2: _scikit_learn(train.rows(kept), train.rows(held), l2) for l2 in _SWEEP
  }
  assert result.l2 == max(compared, key=lambda l2: (compared[l2], l2))
  expected = _scikit_learn(train, test, result.l2)
  assert result.top1 == pytest.approx(expected, abs=2 / 1000)
  assert 0.3 < result.top1 < 1


def test_the_choice_never_looks_at_the_test_split(probe):
  train, test = _blobs(250), _blobs(300, seed=1)
  result = probe(train, test)
  other = dataclasses.replace(test, labels=(test.labels + 1) % 5)
  assert probe(train, other).l2 == result.l2
  assert probe(train, other).top1 < result.top1


def test_the_choice_is_better_than_the_weakest(probe):
  train, test = _blobs(250), _blobs(1000, seed=1)
  assert probe(train, test).l2 > 1e-4
  assert probe(train, test).top1 > probe(train, test, l2_sweep=(1e-4,)).top1


def test_a_choice_at_the_end_of_the_sweep_is_warned_of(probe, caplog):
  train, test = _blobs(250), _blobs(300, seed=1)
  assert probe(train, test, l2_sweep=(1e-4, 1e-2)).l2 == 1e-2
  assert "The best l2, 0.01, is at the end of l2_sweep" in caplog.text
  caplog.clear()
  # Equally good ones at the end say nothing of what lies behind.
  blank = Examples(np.ones((50, 4), np.float32), np.arange(50) % 5)
  probe(blank, blank)
  assert "l2_sweep" not in caplog.text


def test_a_single_l2_is_not_compared_on_anything(probe, caplog):
  train = Examples(np.eye(5, dtype=np.float32), np.arange(5))
  with caplog.at_level(logging.INFO):
    result = probe(train, train, l2_sweep=(1e-3,))
  assert result == linear_probe.Result(top1=1.0, l2=1e-3)
  assert "held-out" not in caplog.text


def test_classes_without_two_examples_leave_nothing_to_choose_on(probe):
  train = Examples(np.eye(5, dtype=np.float32), np.arange(5))
  with pytest.raises(ValueError, match="give l2_sweep a single value"):
    probe(train, train)


def test_labels_that_are_no_classes_are_refused(probe):
  train = Examples(np.eye(5, dtype=np.float32), np.arange(5))
  with pytest.raises(ValueError, match=r"Label 4 is outside 0\.\.3"):
    probe(train, train, num_classes=4)


@pytest.mark.parametrize("held_out", [0.01, 0.25, 0.9])
def test_every_class_is_divided(held_out):
  labels = np.repeat(np.arange(4), [100, 20, 2, 1])
  kept, held = linear_probe.divide(labels, num_classes=5, held_out=held_out)
  rows = np.concatenate([kept, held])
  np.testing.assert_array_equal(np.sort(rows), np.arange(len(labels)))
  counts = np.bincount(labels[held], minlength=5)
  assert abs(counts[0] - 100 * held_out) <= 1
  assert counts[0] >= 1 and 1 <= counts[1] <= 19
  assert list(counts[2:]) == [1, 0, 0]


def test_the_division_repeats():
  labels = np.random.default_rng(0).integers(0, 4, 100)
  first, second = (
    linear_probe.divide(labels, num_classes=4, held_out=0.1) for _ in range(2)
  )
  np.testing.assert_array_equal(first[1], second[1])


def _evaluator(train, test, context, **changes):
  config = schema.LinearProbeEval(
    type="linear_probe", **({"l2_sweep": (1e-3, 1e-1)} | changes)
  )
  return linear_probe.evaluator(config, {"toy": (train, test)}, context)


@pytest.fixture
def problem(make_problem, make_split):
  """Train split, test split, state."""
  images, labels, state = make_problem(num_examples=90, noise=20)
  test_images, test_labels, _ = make_problem(70, seed=1, noise=20)
  train = make_split(images, labels, shuffled=True)
  return train, make_split(test_images, test_labels, shuffled=True), state


def test_metrics_are_accuracy_and_the_l2_chosen(problem, make_context):
  train, test, state = problem
  with jax.transfer_guard("disallow"):
    metrics = _evaluator(train, test, make_context()).run(state, 5)
  assert set(metrics) == {"linear_probe/toy/top1", "linear_probe/toy/l2"}
  assert metrics["linear_probe/toy/l2"] in (1e-3, 1e-1)
  features = []
  for source in (train.source, test.source):
    pixels = source.images.reshape(source.num_examples, -1) / 255
    projected = pixels @ np.asarray(state.eval_params["projection"])
    features.append(Examples(projected.astype(np.float32), source.labels))
  expected = _scikit_learn(*features, metrics["linear_probe/toy/l2"])
  assert metrics["linear_probe/toy/top1"] == pytest.approx(
    expected, abs=1.5 / 70
  )


def test_devices_change_nothing(problem, make_mesh, make_context):
  train, test, state = problem
  expected = _evaluator(train, test, make_context()).run(state, 5)
  mesh = make_mesh(4)
  train, test = (dataclasses.replace(s, mesh=mesh) for s in (train, test))
  state = type(state)(jax.device_get(state.eval_params))
  metrics = _evaluator(train, test, make_context(mesh=mesh)).run(state, 5)
  assert metrics == pytest.approx(expected, abs=1 / 70)


def test_a_problem_is_reported_with_its_key(problem, make_context):
  train, test, state = problem
  source = dataclasses.replace(train.source, labels=train.source.labels - 1)
  train = dataclasses.replace(train, source=source)
  with pytest.raises(UserError, match="config.evals.test: Label -1 is outside"):
    _evaluator(train, test, make_context()).run(state, 5)
