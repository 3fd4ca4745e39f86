"""Support sets: nested, balanced, seeded."""

import numpy as np
import pytest

from vit_jax.evaluators import shots

LABELS = np.random.default_rng(5).permutation(np.repeat(np.arange(7), 60))


def test_fewer_shots_are_a_subset_of_more():
  permutations = shots.class_permutations(LABELS, num_classes=7, seed=1)
  sets = [set(shots.support_set(permutations, k)) for k in (1, 5, 10, 25)]
  for k, rows in zip((1, 5, 10, 25), sets, strict=True):
    assert len(rows) == 7 * k
  assert sets[0] < sets[1] < sets[2] < sets[3]


def test_every_class_has_as_many_examples_as_shots():
  permutations = shots.class_permutations(LABELS, num_classes=7, seed=0)
  rows = shots.support_set(permutations, 10)
  np.testing.assert_array_equal(np.bincount(LABELS[rows]), [10] * 7)


def test_seed_decides_the_set():
  def draw(seed):
    return shots.support_set(
      shots.class_permutations(LABELS, num_classes=7, seed=seed), 5
    ).tolist()

  assert draw(0) == draw(0)
  assert draw(0) != draw(1)


def test_one_generator_permutes_the_classes_in_turn():
  rng = np.random.default_rng(3)
  expected = [rng.permutation(np.where(LABELS == c)[0]) for c in range(7)]
  drawn = shots.class_permutations(LABELS, num_classes=7, seed=3)
  for ours, theirs in zip(drawn, expected, strict=True):
    np.testing.assert_array_equal(ours, theirs)


def test_held_out_set_shares_nothing_with_the_support_sets():
  permutations = shots.class_permutations(LABELS, num_classes=7, seed=0)
  held_out = set(shots.held_out_set(permutations, 25))
  assert len(held_out) == 7 * 25
  assert not held_out & set(shots.support_set(permutations, 25))


def test_held_out_set_takes_what_is_left():
  permutations = shots.class_permutations(LABELS, num_classes=7, seed=0)
  assert len(shots.held_out_set(permutations, 50)) == 7 * 10
  assert len(shots.held_out_set(permutations, 60)) == 0


def test_class_with_too_few_examples_is_named():
  labels = np.array([0, 0, 0, 1, 2, 2, 2])
  with pytest.raises(ValueError, match=r"Class 1 has 1 examples.* 3 shots"):
    shots.require_shots(labels, num_classes=3, shots=3)
  with pytest.raises(ValueError, match=r"Class 1 \('dog'\).*1 more class"):
    shots.require_shots(
      labels,
      num_classes=4,
      shots=3,
      class_names=("cat", "dog", "fox", "owl"),
    )
  shots.require_shots(labels, num_classes=3, shots=1)


def test_label_outside_the_classes_is_named():
  with pytest.raises(ValueError, match="Label 3 is outside 0..2"):
    shots.require_classes(np.array([0, 1, 2, 3]), num_classes=3)
