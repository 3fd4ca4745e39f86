"""Tokenizers of centres: k-means of the directions of features."""

import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.objectives.beit import centres

DIRECTIONS = np.eye(4, 8)


def features(seed=0, count=400):
  """Directions of four kinds, with noise and of any length."""
  rng = np.random.default_rng(seed)
  kinds = rng.integers(0, 4, count)
  rows = DIRECTIONS[kinds] + 0.1 * rng.standard_normal((count, 8))
  return kinds, rows * rng.uniform(0.5, 9, (count, 1))


def passes(rows, count=4):
  return (np.array_split(rows, 8) for _ in range(count))


@pytest.mark.parametrize("seed", range(4))
def test_each_kind_of_feature_gets_a_centre(seed):
  kinds, rows = features(seed)
  found = centres.fit(passes(rows), 4, seed)
  np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
  assert found.dtype == np.float32
  tokens = centres.assign(rows, found)
  pairs = set(zip(kinds, tokens, strict=True))
  # Nearly all of a kind have one token; two kinds may share one where two
  # centres started in a third, but hardly any centre is idle.
  assert len({token for _, token in pairs}) == 4
  spread = np.linalg.norm(centres.unit(rows) - found[tokens], axis=1)
  assert spread.mean() < 0.6


def test_centres_follow_from_the_seed():
  _, rows = features()
  first, again, other = (
    centres.fit(passes(rows, 2), 6, seed) for seed in (3, 3, 4)
  )
  np.testing.assert_array_equal(first, again)
  assert not np.array_equal(first, other)


def test_a_centre_is_the_mean_direction_of_its_features():
  _, rows = features(count=64)
  found = centres.fit([[rows]], 1, 0)
  # The feature that it started at counts twice.
  units = centres.unit(rows)
  start = units[np.random.default_rng(0).permutation(64)[:1]]
  np.testing.assert_allclose(
    found, centres.unit(units.sum(axis=0, keepdims=True) + start), rtol=1e-5
  )


def test_more_centres_than_features_are_refused():
  with pytest.raises(UserError, match="10 patches, fewer than the 11 tokens"):
    centres.fit([[np.ones((4, 3)), np.ones((6, 3))]], 11, 0)


def test_a_file_reads_back(tmp_path, monkeypatch):
  _, rows = features()
  made = centres.Centres(np.float32(rows[:5]), "runs/x", "0123")
  path = str(tmp_path / "tokens.npz")
  centres.write(path, made)
  found = centres.read(path)
  np.testing.assert_array_equal(found.rows, made.rows)
  assert (found.network, found.digest) == ("runs/x", "0123")
  monkeypatch.setenv("HOME", str(tmp_path))
  np.testing.assert_array_equal(centres.read("~/tokens.npz").rows, made.rows)
