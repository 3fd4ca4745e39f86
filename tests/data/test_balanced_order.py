"""The stream in which every class is as frequent."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests import experiments
from vit_jax import checks
from vit_jax.data import facts, sources
from vit_jax.data.balanced_order import BalancedOrder
from vit_jax.data.deduplication import exclusion
from vit_jax.errors import UserError


def labels_of(counts, seed=0):
  """Labels with so many examples of each class, in a random order."""
  labels = np.repeat(np.arange(len(counts)), counts)
  return np.random.default_rng(seed).permutation(labels).astype(np.int32)


counts_of_classes = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(counts=counts_of_classes, seed=st.integers(0, 2**32 - 1))
def test_every_window_of_as_many_draws_as_classes_has_each_once(counts, seed):
  labels = labels_of(counts)
  drawn = labels[
    BalancedOrder(labels).example_ids(np.arange(7 * len(counts)), seed=seed)
  ]
  for window in drawn.reshape(7, len(counts)):
    assert np.array_equal(np.sort(window), np.arange(len(counts)))


@settings(max_examples=60, deadline=None)
@given(counts=counts_of_classes, seed=st.integers(0, 2**32 - 1))
def test_a_class_is_gone_through_in_one_permutation_after_the_other(
  counts, seed
):
  labels = labels_of(counts)
  rows = np.arange(3 * max(counts) * len(counts))
  drawn = BalancedOrder(labels).example_ids(rows, seed=seed)
  for label, count in enumerate(counts):
    of_class = drawn[labels[drawn] == label]
    whole = of_class[: len(of_class) // count * count].reshape(-1, count)
    assert len(whole) >= 3
    members = np.flatnonzero(labels == label)
    assert (np.sort(whole, axis=1) == members).all()


def test_over_epochs_classes_and_the_examples_of_each_are_equally_frequent():
  """Counts over 12 epochs of 700 examples in classes of 600, 90 and 10."""
  labels = labels_of([600, 90, 10])
  drawn = BalancedOrder(labels).example_ids(np.arange(12 * 700), seed=4)
  assert np.bincount(labels[drawn]).tolist() == [2800, 2800, 2800]
  times = np.bincount(drawn, minlength=700)
  for label, expected in enumerate((2800 / 600, 2800 / 90, 2800 / 10)):
    of_class = times[labels == label]
    assert of_class.min() >= np.floor(expected)
    assert of_class.max() <= np.ceil(expected)


def test_rows_do_not_depend_on_what_else_is_asked():
  order = BalancedOrder(labels_of([50, 3, 20, 400]))
  ids = order.example_ids(np.arange(5000), seed=3)
  some = np.array([4999, 17, 17, 700, 2500])
  assert np.array_equal(order.example_ids(some, seed=3), ids[some])
  alone = [order.example_ids(np.array([row]), seed=3)[0] for row in some]
  assert np.array_equal(alone, ids[some])


def test_repeated_rows_are_the_same_example():
  order = BalancedOrder(labels_of([30, 5]))
  once = order.example_ids(np.arange(40), seed=1)
  thrice = order.example_ids(np.arange(120), seed=1, repeats=3)
  assert np.array_equal(thrice, np.repeat(once, 3))


def test_seeds_and_passes_differ():
  labels = labels_of([500, 500])
  order = BalancedOrder(labels)
  streams = [order.example_ids(np.arange(1000), seed=seed) for seed in (0, 1)]
  streams.append(order.example_ids(np.arange(1000, 2000), seed=0))
  for one, other in itertools.combinations(streams, 2):
    assert np.mean(one == other) < 0.02


def _assert_uniform(counts):
  """Chi-square within five standard deviations, and room for its skew."""
  expected, freedom = counts.mean(), counts.size - 1
  chi_square = np.sum((counts - expected) ** 2) / expected
  assert chi_square < freedom + 5 * np.sqrt(2 * freedom) + 10


@pytest.mark.parametrize("num_classes", [2, 5, 20])
def test_classes_come_in_any_order(num_classes):
  """Any two classes are as likely at any two places of a window."""
  labels = labels_of([40] * num_classes)
  rows = np.arange(num_classes * 10_000)
  drawn = labels[BalancedOrder(labels).example_ids(rows, seed=5)]
  windows = drawn.reshape(-1, num_classes)
  for first, second in itertools.combinations(range(min(num_classes, 4)), 2):
    pairs = windows[:, first] * num_classes + windows[:, second]
    found = np.bincount(pairs, minlength=num_classes**2)
    found = found.reshape(num_classes, num_classes)
    assert not found.diagonal().any()
    _assert_uniform(found[~np.eye(num_classes, dtype=bool)])


@pytest.mark.parametrize("count", [4, 25])
def test_the_examples_of_a_class_come_in_any_order(count):
  """Any two of its examples are as likely to follow one another in a pass."""
  labels = labels_of([count, 60])
  drawn = BalancedOrder(labels).example_ids(np.arange(count * 20_000), seed=6)
  members = np.flatnonzero(labels == 0)
  passes = np.searchsorted(members, drawn[labels[drawn] == 0])
  passes = passes.reshape(-1, count)
  pairs = passes[:, 0] * count + passes[:, 1]
  found = np.bincount(pairs, minlength=count**2).reshape(count, count)
  assert not found.diagonal().any()
  _assert_uniform(found[~np.eye(count, dtype=bool)])


def test_classes_without_examples_and_examples_without_class_are_not_drawn():
  labels = np.array([5, -1, 2, 5, 5, -1], np.int32)
  order = BalancedOrder(labels)
  assert (order.classes.tolist(), order.counts.tolist()) == ([2, 5], [1, 3])
  drawn = order.example_ids(np.arange(60), seed=0)
  assert np.bincount(drawn, minlength=6).tolist() == [10, 0, 30, 10, 10, 0]


def test_the_order_never_changes():
  order = BalancedOrder(np.repeat([0, 1, 2], [4, 20, 1]))
  found = order.example_ids(np.arange(12), seed=0)
  assert found.tolist() == [5, 24, 0, 6, 24, 3, 13, 24, 1, 24, 21, 2]
  found = order.example_ids(10**12 + np.arange(6), seed=7)
  assert found.tolist() == [24, 22, 0, 15, 24, 16]


def test_a_million_examples_take_four_bytes_each():
  labels = np.arange(2**20, dtype=np.int32) ** 2 % 1009
  tracemalloc.start()
  order = BalancedOrder(labels)
  kept, _ = tracemalloc.get_traced_memory()
  assert kept < 4.5 * len(labels)
  tracemalloc.reset_peak()
  order.example_ids(np.arange(10**9, 10**9 + 4096), seed=0)
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert peak - kept < 4e6


@pytest.fixture
def photos(tmp_path):
  """An image folder of 8 cats, 2 dogs and 3 owls."""
  for name, count in (("cat", 8), ("dog", 2), ("owl", 3)):
    for number in range(count):
      path = tmp_path / "photos" / "train" / name / f"{number}.png"
      path.parent.mkdir(parents=True, exist_ok=True)
      Image.new("RGB", (8, 8), (9 * number, 0, 0)).save(path)
  return tmp_path / "photos"


def config_of(data_dir, **changes):
  changes = {"train__dataset": "folder", "evals": {}} | changes
  return experiments.config(
    data_dir=str(data_dir), train__sampling="balanced", **changes
  )


def test_excluded_examples_are_not_drawn(photos, tmp_path):
  source = sources.open_source("folder", "train", data_dir=str(photos))
  labels = source.known_labels()
  cats = np.flatnonzero(labels == 0)
  exclusion.write(tmp_path / "left_out.json", source, cats[:5].tolist())
  config = config_of(photos, train__exclude=str(tmp_path / "left_out.json"))
  remaining = facts.open_data(config)
  found = facts.of_source(config, remaining)
  assert found.label_counts.tolist() == [3, 2, 3]
  drawn = found.balance.example_ids(np.arange(30), seed=0)
  names = remaining.names(drawn)
  assert [
    sum(f"/{kind}/" in name for name in names) for kind in ("cat", "dog", "owl")
  ] == [10, 10, 10]
  assert not set(names) & set(source.names(cats[:5]))


def test_a_uniform_run_has_no_balanced_order(photos):
  config = config_of(photos).model_copy(
    update={"train": experiments.config(train__dataset="folder").train}
  )
  assert facts.of_source(config, facts.open_data(config)).balance is None


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (
      {
        "train__dataset": "generated:targets=1,size=8",
        "objective__loss": "mse",
      },
      "has numbers to predict; leave it at 'uniform'",
    ),
    (
      {
        "train__dataset": "generated:labels=3,size=8",
        "objective__loss": "sigmoid",
      },
      "have up to 3; leave it at 'uniform'",
    ),
    ({"train__dataset": "digits"}, "of 'digits', leave it at 'uniform'"),
    (
      {"train__preprocess": "decode|inception_crop|remap([0, 0, 1])"},
      "which remap in config.train.preprocess changes",
    ),
  ],
)
def test_data_whose_classes_are_not_one_and_known_are_refused(
  photos, changes, message
):
  config = config_of(photos, **changes)
  with pytest.raises(UserError, match="config.train.sampling") as error:
    facts.of_source(config, facts.open_data(config))
  assert message in str(error.value)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"train__shuffle_block": 4}, "config.train.shuffle_block = 4 keeps"),
    (
      {"objective__class_weights": "balanced"},
      "makes all classes weigh alike, as config.train.sampling",
    ),
  ],
)
def test_what_does_not_go_with_it_is_refused_without_data(changes, message):
  with pytest.raises(UserError, match=message):
    checks.check(config_of("nowhere", **changes))
