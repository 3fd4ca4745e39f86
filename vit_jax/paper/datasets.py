"""Sizes of well-known datasets, for what is planned where the data are not."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Dataset:
  """Published sizes: classes of the labels, and images of each split.

  Attributes:
    side: Of square images that are all alike, pixels; None: sizes vary.
  """

  num_classes: int
  num_examples: Mapping[str, int]
  side: int | None = None


# By TFDS's names, and jft_300m, which is not public. [P]: arXiv 2010.11929;
# [BiT]: arXiv 1912.11370; [T]: the catalogue of TFDS.
DATASETS = {
  "imagenet2012": Dataset(  # [T]
    1000, {"train": 1_281_167, "validation": 50_000}
  ),
  # [P] 14M images; 21,843 classes are those of the published checkpoints.
  "imagenet21k": Dataset(21_843, {"train": 14_000_000}),
  # [P] 303M images, [BiT] 18,291 classes.
  "jft_300m": Dataset(18_291, {"train": 303_000_000}),
  "cifar10": Dataset(10, {"train": 50_000, "test": 10_000}, side=32),  # [T]
  "cifar100": Dataset(100, {"train": 50_000, "test": 10_000}, side=32),  # [T]
  "oxford_iiit_pet": Dataset(37, {"train": 3680, "test": 3669}),  # [T]
  "oxford_flowers102": Dataset(  # [T]
    102, {"train": 1020, "validation": 1020, "test": 6149}
  ),
}
