"""Label sets from a file reach the images that they are about."""

import json

import numpy as np
import pytest

from tests.data.building import pictures
from vit_jax.data import label_sets, sources
from vit_jax.data.building import build
from vit_jax.errors import UserError

KEY = "config.evals.real.label_sets"
# Of ILSVRC2012_val_00000001, 2, 3, ...
SETS = [[2], [], [0, 1], [1], [2, 0, 1]]


def write(path, value):
  path.write_text(value if isinstance(value, str) else json.dumps(value))
  return str(path)


@pytest.fixture
def real_json(tmp_path):
  return write(tmp_path / "real.json", SETS)


@pytest.fixture
def photos(tmp_path):
  """An image folder of five validation images, image i of pixels i."""
  for number, wnid in enumerate(("n3", "n1", "n2", "n1", "n3"), start=1):
    path = tmp_path / "photos/val" / wnid
    path.mkdir(parents=True, exist_ok=True)
    file = path / f"ILSVRC2012_val_{number:08}.png"
    file.write_bytes(pictures.png(number))
  return tmp_path / "photos"


def open_sets(path, source):
  return label_sets.relabel(source, label_sets.read(path, key=KEY))


def check_each_image_has_its_set(source):
  ids = np.arange(source.num_examples)
  batch = source.read(ids)
  numbers = {pictures.png(number): number for number in range(1, 6)}
  found = {
    numbers[image]: [label for label in labels if label >= 0]
    for image, labels in zip(batch["image"], batch["label"], strict=True)
  }
  assert found == dict(enumerate(SETS, start=1))
  assert batch["label"].dtype == np.int32
  assert batch["label"].shape == (5, source.max_labels) == (5, 3)


def test_files_of_a_folder_get_the_sets_of_their_numbers(photos, real_json):
  source = sources.open_source("folder", "val", data_dir=str(photos))
  check_each_image_has_its_set(open_sets(real_json, source))


def test_records_of_a_dataset_get_the_sets_of_their_file_names(
  photos, real_json, tmp_path
):
  """As TFDS keeps them too, in a feature of the same name."""
  build.build(
    "imagenet",
    str(tmp_path / "data"),
    str(photos),
    num_workers=1,
    show=lambda *_: None,
  )
  source = sources.open_source(
    "imagenet", "val", data_dir=str(tmp_path / "data")
  )
  check_each_image_has_its_set(open_sets(real_json, source))


def test_all_but_labels_and_fingerprint_is_the_source_s(photos, real_json):
  source = sources.open_source("folder", "val", data_dir=str(photos))
  relabelled = open_sets(real_json, source)
  ids = np.array([3, 0])
  assert isinstance(relabelled, sources.Source)
  assert relabelled.class_names == source.class_names
  assert relabelled.names(ids) == source.names(ids)
  assert relabelled.fingerprint != source.fingerprint
  assert source.fingerprint in relabelled.fingerprint


def test_other_labels_are_another_fingerprint(photos, tmp_path):
  source = sources.open_source("folder", "val", data_dir=str(photos))
  prints = {
    open_sets(write(tmp_path / "a.json", sets), source).fingerprint
    for sets in (SETS, SETS[::-1])
  }
  assert len(prints) == 2


def test_sets_of_one_label_stay_sets(photos, tmp_path):
  """An example whose only label is -1 would be an error elsewhere."""
  path = write(tmp_path / "a.json", [[0], [], [1], [1], [2]])
  source = sources.open_source("folder", "val", data_dir=str(photos))
  assert open_sets(path, source).max_labels == 2


@pytest.mark.parametrize(
  "content, sentence",
  [
    ("[[1], ", "is not a JSON list of label lists"),
    ("{}", "is not a JSON list of label lists"),
    ("[]", "is not a JSON list of label lists"),
    ([[1], 2], "entry 1 .counted from 0. is not a list of classes"),
    ([[1], [True]], "entry 1 "),
    ([[-1]], "entry 0 "),
  ],
)
def test_a_file_of_another_form_is_refused(tmp_path, content, sentence):
  path = write(tmp_path / "real.json", content)
  with pytest.raises(UserError, match=f"{KEY} = .*real.json':? {sentence}"):
    label_sets.read(path, key=KEY)


def test_a_file_that_is_not_there_is_named(tmp_path):
  with pytest.raises(UserError, match=r"real.json' cannot be read \(No such"):
    label_sets.read(str(tmp_path / "real.json"), key=KEY)


@pytest.mark.parametrize(
  "sets, sentence",
  [
    ([[3], [], [0], [0], [0]], "has class 3, the dataset 3 classes"),
    (SETS[:1], "has 1 entries, none for the file 'ILSVRC2012_val_00000"),
  ],
)
def test_labels_of_other_images_are_refused(photos, tmp_path, sets, sentence):
  source = sources.open_source("folder", "val", data_dir=str(photos))
  ids = np.arange(5)
  with pytest.raises(UserError, match=sentence):
    open_sets(write(tmp_path / "a.json", sets), source).read(ids)


def test_files_without_numbers_are_refused(real_json, tmp_path):
  """Those of training, n01440764_10026.JPEG, have others in their names."""
  for wnid in ("n1", "n2", "n3"):
    path = tmp_path / "photos/val" / wnid
    path.mkdir(parents=True)
    (path / f"{wnid}_00000001.png").write_bytes(pictures.png(1))
  source = sources.open_source("folder", "val", data_dir=f"{tmp_path}/photos")
  with pytest.raises(UserError, match="goes by numbers in the names .* has no"):
    open_sets(real_json, source)


def test_datasets_without_files_are_refused(real_json):
  source = sources.open_source("generated:classes=4", "test", data_dir=None)
  with pytest.raises(UserError, match="matches by the names of image files"):
    open_sets(real_json, source)


def test_published_labels_leave_out_3163_images(shared):
  """Section 7 of the facts."""
  path = shared / "data" / "imagenet_real.json"
  labels = label_sets.read(str(path), key=KEY).labels
  counted = (labels >= 0).any(axis=1)
  assert labels.shape == (50_000, 9)
  assert (counted.sum(), (~counted).sum()) == (46_837, 3_163)
  assert (labels >= 0).sum() == 57_553 and labels.max() == 999
