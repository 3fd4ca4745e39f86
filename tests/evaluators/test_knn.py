"""The k-NN evaluator."""

import dataclasses

import jax
import numpy as np
import pytest

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import knn


def _evaluator(train, test, context, **changes):
  config = schema.KnnEval(type="knn", **({"neighbors": (1, 20)} | changes))
  return knn.evaluator(config, {"toy": (train, test)}, context)


def _features(source, state):
  pixels = source.images.reshape(source.num_examples, -1) / np.float32(255)
  return pixels @ np.asarray(state.eval_params["projection"])


def _oracle(train, test, state, *, count, temperature):
  """The whole protocol once more, one example at a time."""
  bank, queries = (_features(s.source, state) for s in (train, test))
  num_right = 0
  for query, truth in zip(queries, test.source.labels, strict=True):
    cosine = bank @ query / np.linalg.norm(bank, axis=1) / np.linalg.norm(query)
    votes = np.zeros(train.num_classes)
    for row in np.argsort(-cosine)[:count]:
      votes[train.source.labels[row]] += np.exp(cosine[row] / temperature)
    num_right += votes.argmax() == truth
  return num_right / len(queries)


@pytest.fixture
def problem(make_problem, make_split):
  """Train split, test split, state."""
  images, labels, state = make_problem(num_examples=90, noise=20)
  test_images, test_labels, _ = make_problem(70, seed=1, noise=20)
  train = make_split(images, labels, shuffled=True)
  return train, make_split(test_images, test_labels, shuffled=True), state


def test_an_error_that_is_not_of_the_examples_stays_what_it_is(
  problem, make_context, monkeypatch
):
  """Of another process that was lost, say, which jax tells as a ValueError."""
  train, test, state = problem
  error = ValueError("UNKNOWN: Gloo AllGather failed: Connection closed")

  def fail(*unused, **named):
    raise error

  monkeypatch.setattr(knn.neighbors, "Neighbors", fail)
  with pytest.raises(ValueError) as left:
    _evaluator(train, test, make_context()).run(state, 5)
  assert left.value is error


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_accuracy_is_that_of_the_protocol(problem, make_context, temperature):
  train, test, state = problem
  with jax.transfer_guard("disallow"):
    metrics = _evaluator(
      train, test, make_context(), temperature=temperature
    ).run(state, 5)
  assert set(metrics) == {"knn/toy/k1", "knn/toy/k20"}
  for count in (1, 20):
    expected = _oracle(train, test, state, count=count, temperature=temperature)
    assert 0.4 < expected < 1
    # Features differ in the last bits, which may turn one prediction.
    assert metrics[f"knn/toy/k{count}"] == pytest.approx(expected, abs=1 / 70)


def test_devices_change_nothing(problem, make_mesh, make_context):
  train, test, state = problem
  expected = _evaluator(train, test, make_context()).run(state, 5)
  mesh = make_mesh(4)
  train, test = (dataclasses.replace(s, mesh=mesh) for s in (train, test))
  state = type(state)(jax.device_get(state.eval_params))
  metrics = _evaluator(train, test, make_context(mesh=mesh)).run(state, 5)
  assert metrics == pytest.approx(expected, abs=1 / 70)


def test_a_test_split_of_the_training_images_is_known_by_heart(
  problem, make_context
):
  train, _, state = problem
  metrics = _evaluator(train, train, make_context()).run(state, 5)
  assert metrics["knn/toy/k1"] == 1


def test_an_example_without_a_label_is_reported_with_its_key(
  problem, make_context
):
  train, test, state = problem
  labels = train.source.labels.copy()
  labels[3] = -1
  source = dataclasses.replace(train.source, labels=labels)
  train = dataclasses.replace(train, source=source)
  with pytest.raises(UserError, match="config.evals.test: Label -1 is outside"):
    _evaluator(train, test, make_context()).run(state, 5)


def test_a_long_evaluation_gives_signs_of_life(problem, make_context):
  train, test, state = problem
  beats = []
  context = make_context(heartbeat=lambda: beats.append(1))
  _evaluator(train, test, context).run(state, 5)
  # 6 and 5 batches of 16, and a chunk of queries.
  assert len(beats) == 12
