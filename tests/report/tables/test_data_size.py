"""Images of split strings."""

import pytest

from vit_jax.report.tables import data_size


@pytest.mark.parametrize(
  "dataset, split, images",
  [
    ("cifar10", "train", 50_000),
    ("cifar10", "train[:25%]", 12_500),
    ("cifar10", "train[98%:]", 1000),
    ("cifar10", "train[:800]+train[45000:45200]", 1000),
    ("cifar10", "train[:99999]", 50_000),
    ("cifar10", "train+test", 60_000),
    ("jft_300m", "train[:9000000]", 9_000_000),
    ("mine", "train[100:250]", 150),
    ("mine", "train", None),
    ("mine", "train[:50%]", None),
    ("mine", "train[100:]", None),
    ("cifar10", "train[2shard:]", None),
    ("cifar10", "train[9:3]", None),
  ],
)
def test_images_are_counted_or_not_known(dataset, split, images):
  assert data_size.count(dataset, split) == images
