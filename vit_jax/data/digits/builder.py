"""The TFDS builder of `digits`; TFDS requires a package for it."""

import io
from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image
from sklearn import datasets

# Every fifth image of a class is held out. In the dataset each writer's digits
# are consecutive, so all writers are in both splits.
_TEST_STRIDE = 5


class Digits(tfds.core.GeneratorBasedBuilder):
  """1797 grey images of 8 px: 1442 for training, 355 for testing."""

  VERSION = tfds.core.Version("1.0.0")
  RELEASE_NOTES = {"1.0.0": "First version."}

  def _info(self) -> tfds.core.DatasetInfo:
    return self.dataset_info_from_configs(
      description=(
        "Handwritten digits of 43 people (the test set of UCI's Optical"
        " Recognition of Handwritten Digits), from scikit-learn."
      ),
      features=tfds.features.FeaturesDict(
        {
          "image": tfds.features.Image(shape=(8, 8, 1), encoding_format="png"),
          "label": tfds.features.ClassLabel(num_classes=10),
        }
      ),
      supervised_keys=("image", "label"),
      homepage="https://archive.ics.uci.edu/dataset/80",
    )

  def _split_generators(self, dl_manager: tfds.download.DownloadManager):
    del dl_manager
    return {
      "train": self._generate_examples(held_out=False),
      "test": self._generate_examples(held_out=True),
    }

  def _generate_examples(
    self, *, held_out: bool
  ) -> Iterator[tuple[int, dict[str, bytes | int]]]:
    digits = datasets.load_digits()
    # Grey levels range from 0 to 16.
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)
    seen = np.zeros(10, int)
    for index, label in enumerate(digits.target):
      seen[label] += 1
      if (seen[label] % _TEST_STRIDE == 0) == held_out:
        png = io.BytesIO()
        Image.fromarray(images[index]).save(png, "PNG")
        yield index, {"image": png.getvalue(), "label": int(label)}
