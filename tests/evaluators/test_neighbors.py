"""Nearest neighbours and votes against oracles written another way."""

import jax
import numpy as np
import pytest
from sklearn import neighbors as sklearn_neighbors

from vit_jax.evaluators import neighbors


def _cloud(num_rows, *, seed=0, width=12):
  return np.random.default_rng(seed).normal(size=(num_rows, width))


def _nearest(features, queries, count, mesh):
  """All chunks as one; float32 as features come."""
  bank = neighbors.Neighbors(
    features.astype(np.float32), count=count, mesh=mesh
  )
  chunks = list(bank.chunks(queries.astype(np.float32)))
  return tuple(map(np.concatenate, zip(*chunks, strict=True)))


def _oracle(features, queries, count):
  features = features / np.linalg.norm(features, axis=1, keepdims=True)
  queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
  similarity = queries @ features.T
  rows = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
  return np.take_along_axis(similarity, rows, axis=1), rows


# 41 rows do not divide over 4 devices; 11 to a device are fewer than 13.
@pytest.mark.parametrize("num_devices", [1, 4])
@pytest.mark.parametrize("count", [1, 13, 41])
def test_neighbours_are_the_most_similar_rows(make_mesh, num_devices, count):
  features, queries = _cloud(41), _cloud(29, seed=1)
  with jax.transfer_guard("disallow"):
    similarity, rows = _nearest(
      features, queries, count, make_mesh(num_devices)
    )
  expected_similarity, expected_rows = _oracle(features, queries, count)
  np.testing.assert_array_equal(rows, expected_rows)
  np.testing.assert_allclose(similarity, expected_similarity, atol=1e-6)


def test_chunks_bound_the_memory_and_change_nothing(make_mesh, monkeypatch):
  features, queries = _cloud(41), _cloud(29, seed=1)
  mesh = make_mesh(2)
  expected = _nearest(features, queries, 5, mesh)
  # 21 rows a device: 4 queries at a time.
  monkeypatch.setattr(neighbors, "_MAX_SIMILARITIES", 21 * 4 + 3)
  bank = neighbors.Neighbors(features.astype(np.float32), count=5, mesh=mesh)
  sizes = [len(s) for s, _ in bank.chunks(queries.astype(np.float32))]
  assert sizes == [4] * 7 + [1]
  for found, whole in zip(
    _nearest(features, queries, 5, mesh), expected, strict=True
  ):
    np.testing.assert_allclose(found, whole, atol=1e-6)


@pytest.mark.parametrize("num_devices", [1, 4])
def test_of_equal_rows_the_first_comes_first(make_mesh, num_devices):
  features = np.tile(_cloud(3), (7, 1))
  _, rows = _nearest(features, features[:3], 7, make_mesh(num_devices))
  np.testing.assert_array_equal(rows, np.arange(3)[:, None] + 3 * np.arange(7))


def test_lengths_say_nothing(make_mesh):
  features, queries = _cloud(41), _cloud(29, seed=1)
  lengths = np.random.default_rng(2).uniform(0.01, 100, size=(41, 1))
  mesh = make_mesh()
  _, rows = _nearest(features, queries, 5, mesh)
  _, scaled_rows = _nearest(lengths * features, 7 * queries, 5, mesh)
  np.testing.assert_array_equal(scaled_rows, rows)


def test_a_feature_of_zeros_is_similar_to_none(make_mesh):
  features = np.concatenate([np.zeros((1, 12)), _cloud(5)])
  similarity, _ = _nearest(features, np.zeros((2, 12)), 6, make_mesh())
  np.testing.assert_array_equal(similarity, np.zeros((2, 6)))


@pytest.mark.parametrize("temperature", [0.01, 0.07, 1.0])
@pytest.mark.parametrize("count", [1, 10, 60])
def test_votes_are_those_of_scikit_learn(count, temperature):
  features, queries = _cloud(60), _cloud(200, seed=1)
  labels = np.random.default_rng(3).integers(0, 4, 60)
  oracle = sklearn_neighbors.KNeighborsClassifier(
    count,
    weights=lambda distance: np.exp((1 - distance) / temperature),
    algorithm="brute",
    metric="cosine",
  ).fit(features, labels)
  similarity, rows = _oracle(features, queries, count)
  votes = neighbors.vote(
    similarity, labels[rows], temperature=temperature, num_classes=4
  )
  np.testing.assert_array_equal(votes, oracle.predict(queries))


def test_a_low_temperature_leaves_the_vote_to_the_nearest():
  similarity = np.array([[-0.8, -0.81, -0.82]])
  labels = np.array([[2, 1, 1]])
  for temperature, winner in ((1e-6, 2), (10.0, 1)):
    assert neighbors.vote(
      similarity, labels, temperature=temperature, num_classes=3
    ) == [winner]


def test_of_equal_votes_the_first_class_wins():
  votes = neighbors.vote(
    np.full((1, 4), 0.5),
    np.array([[3, 1, 3, 1]]),
    temperature=0.07,
    num_classes=5,
  )
  assert votes == [1]
