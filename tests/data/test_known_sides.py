import io

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import known_sides, sources


@pytest.mark.parametrize(
  ("dataset", "of_arrays", "smaller"),
  [
    ("generated:classes=3,size=24", 24, 24),
    ("digits", None, 8),
    ("cifar100:3.0.2", None, 32),
    ("imagenet2012", None, None),
    ("folder", None, None),
    ("webdataset:shards/{0..3}.tar", None, None),
  ],
)
def test_sides_are_told_by_names(dataset, of_arrays, smaller):
  assert known_sides.of_arrays(dataset) == of_arrays
  assert known_sides.smaller(dataset) == smaller


@pytest.mark.parametrize("dataset", ["digits", "generated:size=12"])
def test_they_are_those_of_the_data(dataset):
  source = sources.open_source(dataset, "train", data_dir=None)
  shape = source.image_shape
  assert known_sides.of_arrays(dataset) == (shape and shape[0])
  (image,) = source.read(np.array([5]))["image"]
  if shape is None:
    image = np.asarray(Image.open(io.BytesIO(image)))
  assert image.shape[:2] == (known_sides.smaller(dataset),) * 2
