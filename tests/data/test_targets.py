"""Mean and deviation of the numbers to predict."""

import dataclasses

import numpy as np
import pytest

from vit_jax.data import sources, targets
from vit_jax.data.deduplication import exclusion
from vit_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Numbers(sources.Source):
  """A source of numbers alone."""

  values: np.ndarray
  fingerprint: str = "numbers"

  @property
  def features(self):
    names = tuple(f"n{i}" for i in range(self.values.shape[1]))
    return {"image": sources.Image(), "label": sources.Numbers(names)}

  @property
  def num_examples(self):
    return len(self.values)

  def known_labels(self):
    return self.values

  def read(self, ids):
    raise AssertionError("no image need be read")

  def names(self, ids):
    return [str(i) for i in ids]


def test_mean_and_deviation_are_those_of_numpy():
  values = np.random.default_rng(0).gamma(2, 30, (50, 3))
  found = targets.of_source(Numbers(values), dataset="csv:x.csv")
  assert found.names == ("n0", "n1", "n2")
  np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-12)
  np.testing.assert_allclose(found.std, values.std(axis=0, ddof=0), rtol=1e-12)


def test_examples_that_are_left_out_do_not_count():
  values = np.arange(10.0)[:, None] ** 2
  source = exclusion.Remaining(Numbers(values), np.array([0, 9]))
  found = targets.of_source(source, dataset="csv:x.csv")
  assert found.mean == pytest.approx(values[1:9].mean())


def test_a_number_that_never_changes_is_named():
  values = np.stack([np.arange(4.0), np.full(4, 0.1)], axis=1)
  with pytest.raises(UserError, match=r"'csv:x.csv' .* all 4 .*: n1 = 0.1\."):
    targets.of_source(Numbers(values), dataset="csv:x.csv")


def test_deviations_that_float32_cannot_hold_are_named():
  values = 1e7 + np.arange(100.0)[:, None]
  targets.of_source(Numbers(values - 9.9e6), dataset="csv:x.csv")
  with pytest.raises(UserError, match="'n0' has the mean 10000049.5 and the"):
    targets.of_source(Numbers(values), dataset="csv:x.csv")


@pytest.mark.parametrize(
  "dataset", ["csv:x.csv", "datasets:prices", "webdataset:x.tar"]
)
def test_datasets_of_several_kinds_may_have_numbers(dataset):
  targets.check("mse", dataset)


def test_a_folder_of_classes_has_none():
  with pytest.raises(UserError, match="by config.train.label_key"):
    targets.check("mse", "folder")
