import json
import os

import pytest

from tests.data.building import pictures
from vit_jax.data import sources
from vit_jax.errors import UserError


@pytest.fixture
def images(tmp_path):
  """images/{0..11}.png."""
  for i in range(12):
    path = tmp_path / "images" / f"{i}.png"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pictures.png(i))
  return tmp_path / "images"


def _lines(images, *labels, key="label", name="train.jsonl"):
  """images/NAME, which gives image i the i-th of `labels`."""
  values = [{"path": f"{i}.png", key: label} for i, label in enumerate(labels)]
  return pictures.lines(images / name, *values)


def test_one_class_a_line(images, tmp_path):
  path = _lines(images, *[i % 4 for i in range(12)])
  built = pictures.make(tmp_path, path)
  assert built.splits == {"train": 12} and built.max_labels == 1
  expected = [(pictures.png(i), i % 4) for i in range(12)]
  assert sorted(pictures.pairs(tmp_path)) == sorted(expected)


def test_lists_are_sets_as_wide_as_the_longest(images, tmp_path):
  """A fixed width is what lets pad_labels(3) follow."""
  labels = [[0], [1, 2], [], [2, 2, 0], [3, 1, 0]]
  built = pictures.make(tmp_path, _lines(images, *labels, key="labels"))
  assert built.max_labels == 3
  source = sources.open_source(
    "toy", "train", data_dir=str(tmp_path), label_key="labels"
  )
  assert (source.max_labels, source.num_classes) == (3, 4)
  found = dict(pictures.pairs(tmp_path, label_key="labels"))
  wanted = [[0, -1, -1], [1, 2, -1], [-1, -1, -1], [2, 0, -1], [3, 1, 0]]
  assert found == {pictures.png(i): row for i, row in enumerate(wanted)}


def test_lists_stay_lists_where_none_has_two(images, tmp_path):
  built = pictures.make(tmp_path, _lines(images, [0], [1], [], key="labels"))
  assert built.max_labels == 2


def test_names_are_numbered_in_their_order(images, tmp_path):
  path = _lines(images, ["dog", "ant"], ["cat"], key="labels")
  pictures.make(tmp_path, path)
  source = sources.open_source(
    "toy", "train", data_dir=str(tmp_path), label_key="labels"
  )
  assert source.class_names == ("ant", "cat", "dog")
  found = dict(pictures.pairs(tmp_path, label_key="labels"))
  assert found == {pictures.png(0): [2, 0], pictures.png(1): [1, -1]}


@pytest.mark.parametrize("labels", [(0, 2), ("yak", "bee")])
def test_names_of_classes_can_be_given(images, tmp_path, labels):
  names = tmp_path / "names.txt"
  names.write_text("yak\nant\nbee\n")
  pictures.make(tmp_path, _lines(images, *labels), class_names=str(names))
  source = sources.open_source("toy", "train", data_dir=str(tmp_path))
  assert source.class_names == ("yak", "ant", "bee")
  found = dict(pictures.pairs(tmp_path))
  assert found == {pictures.png(0): 0, pictures.png(1): 2}


def test_a_folder_of_lists_is_a_dataset_of_splits(images, tmp_path):
  """A class that only one split has counts for all."""
  _lines(images, 0, 1, 2, 3)
  _lines(images, 0, 5, name="validation.jsonl")
  built = pictures.make(tmp_path, images)
  assert built.splits == {"train": 4, "validation": 2}
  source = sources.open_source("toy", "train", data_dir=str(tmp_path))
  assert source.num_classes == 6


def test_images_may_lie_elsewhere_than_the_lines(images, tmp_path):
  lines = _lines(tmp_path / "lists", 0, 1)
  pictures.make(tmp_path, lines, image_root=str(images))
  assert len(pictures.pairs(tmp_path)) == 2


def test_absolute_paths_in_the_image_root_are_read(images, tmp_path):
  values = [{"path": str(images / f"{i}.png"), "label": i} for i in range(2)]
  path = pictures.lines(images / "train.jsonl", *values)
  assert pictures.make(tmp_path, path).splits == {"train": 2}


def test_blank_lines_are_passed_over_and_the_last_needs_no_end(
  images, tmp_path
):
  path = _lines(images, 0, 1, 2)
  text = path.read_text().replace("\n", "\n\n").rstrip("\n")
  path.write_text(text)
  assert pictures.make(tmp_path, path).splits == {"train": 3}


@pytest.mark.parametrize(
  "path", ["../secret.png", "/etc/hostname", "sub/../../secret.png", "link.png"]
)
def test_nothing_outside_the_image_root_is_read(images, tmp_path, path):
  (tmp_path / "secret.png").write_bytes(pictures.png(99))
  (images / "sub").mkdir()
  os.symlink(tmp_path / "secret.png", images / "link.png")
  lines = pictures.lines(
    images / "train.jsonl",
    {"path": "0.png", "label": 0},
    {"path": path, "label": 1},
  )
  with pytest.raises(UserError, match=f"{path} .leads to .*outside of"):
    pictures.make(tmp_path, lines)


@pytest.mark.parametrize(
  ("path", "reason"),
  [
    ("none.png", "No such file"),
    ("pipe", "is not a file"),
    (".", "is not a file"),
    ("zero\0byte", "embedded null"),
    ("half\ud800", "can't encode"),
    ("x" * 5000, "name too long"),
  ],
)
def test_paths_that_are_no_files_are_bad_images(images, tmp_path, path, reason):
  os.mkfifo(images / "pipe")
  lines = pictures.lines(
    images / "train.jsonl",
    {"path": "0.png", "label": 0},
    {"path": path, "label": 1},
  )
  with pytest.raises(UserError, match=f"train {path} .*{reason}"):
    pictures.make(tmp_path, lines)


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("{", "line 2: .*Expecting"),
    ("[" * 100_000, "line 2: .*recursion"),
    ('{"path": "1.png", "label": ', r"not JSON \(.*29\); write .\"path\""),
    ("[1]", "line 2: it is not an object"),
    ('{"label": 1}', 'line 2: it has no "path"'),
    ('{"path": 3, "label": 1}', 'line 2: it has no "path"'),
    ('{"path": "1.png"}', "line 2: it must have either"),
    ('{"path": "1.png", "label": 1, "labels": [1]}', "must have either"),
    ('{"path": "1.png", "label": 1.5}', "line 2: 1.5 is not a class"),
    ('{"path": "1.png", "label": true}', "line 2: True is not a class"),
    ('{"path": "1.png", "label": -1}', "line 2: class -1 is below 0"),
    ('{"path": "1.png", "label": 1048576}', "from 0 to 1048575 at most"),
    ('{"path": "1.png", "labels": 1}', 'line 2: its "labels" is not a list'),
    ('{"path": "1.png", "labels": [1]}', "lines do not agree"),
    ('{"path": "1.png", "label": "cat"}', "lines do not agree"),
    ('{"path": "1.png", "label": 0}', "has one class, 0"),
  ],
)
def test_lines_of_another_form_are_named(images, tmp_path, line, message):
  first = json.dumps({"path": "0.png", "label": 0})
  (images / "train.jsonl").write_text(f"{first}\n{line}\n")
  with pytest.raises(UserError, match=message):
    pictures.make(tmp_path, images / "train.jsonl")
  assert not (tmp_path / "toy").exists()


def test_lines_of_another_encoding_are_named(images, tmp_path):
  line = '{"path": "1.png", "label": "caf\xe9"}'
  (images / "train.jsonl").write_bytes(line.encode("latin-1"))
  with pytest.raises(UserError, match="line 1: it is not UTF-8; save"):
    pictures.make(tmp_path, images / "train.jsonl")


def test_several_wrong_lines_are_named_at_once(images, tmp_path):
  (images / "train.jsonl").write_text("1\n" * 30)
  with pytest.raises(UserError) as error:
    pictures.make(tmp_path, images / "train.jsonl")
  assert len(str(error.value).splitlines()) == 10


def test_a_label_beyond_the_given_names_is_an_error(images, tmp_path):
  names = tmp_path / "names.txt"
  names.write_text("ant\nbee\n")
  with pytest.raises(UserError, match="label 2, and --class_names only 2"):
    pictures.make(tmp_path, _lines(images, 0, 2), class_names=str(names))


def test_a_file_without_lines_is_an_error(images, tmp_path):
  (images / "train.jsonl").write_text("\n")
  with pytest.raises(UserError, match="has no lines"):
    pictures.make(tmp_path, images / "train.jsonl")
