import pytest

from tests.data.building import pictures
from vit_jax.errors import UserError


def _refused(tmp_path, path, message, **options):
  with pytest.raises(UserError, match=message):
    pictures.make(tmp_path / "data", path, **options)


def test_what_is_none_of_the_forms_is_refused(tmp_path):
  (tmp_path / "list.txt").touch()
  (tmp_path / "empty").mkdir()
  _refused(tmp_path, "gs://bucket/photos", "is in a bucket; mount it")
  _refused(tmp_path, tmp_path / "none", "none does not exist")
  _refused(tmp_path, tmp_path / "list.txt", "is none of these: a folder of")
  _refused(tmp_path, tmp_path / "empty", "has no images; they are looked for")


def test_two_forms_in_one_folder_are_refused(tmp_path):
  pictures.tars(tmp_path / "mixed")
  pictures.lines(tmp_path / "mixed/train.jsonl", {"path": "a", "label": 0})
  _refused(tmp_path, tmp_path / "mixed", "has tar files and JSON lines")


def test_tars_of_two_depths_are_refused(tmp_path):
  pictures.tars(tmp_path / "tars")
  pictures.tars(tmp_path / "tars/test")
  _refused(tmp_path, tmp_path / "tars", "has tar files .*ant.tar. and folders")


def test_tars_beside_what_they_held_are_refused(tmp_path):
  pictures.tars(tmp_path / "in/train")
  pictures.folder(tmp_path / "in", train=9)
  _refused(tmp_path, tmp_path / "in", "ant.tar. and folders .*train/ant")


@pytest.mark.parametrize("form", ["folder", "tars"])
def test_a_name_for_splits_that_have_names_is_refused(tmp_path, form):
  if form == "folder":
    pictures.folder(tmp_path / "in")
  else:
    pictures.tars(tmp_path / "in/train")
  _refused(tmp_path, tmp_path / "in", "--split=dev", split="dev")


def test_an_image_root_without_json_lines_is_refused(tmp_path):
  pictures.tars(tmp_path / "tars")
  _refused(tmp_path, tmp_path / "tars", "--image_root", image_root="/tmp")


@pytest.mark.parametrize("split", ["all", "a/b", "..", "a b", "1st"])
def test_names_that_tfds_takes_for_no_split_are_refused(tmp_path, split):
  pictures.tars(tmp_path / "tars")
  _refused(tmp_path, tmp_path / "tars", "name of a split", split=split)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("ant\n\nbee\ncat\n", "line 2 is empty"),
    ("ant\nbee\ncat\nant\n", "has 'ant' twice"),
    ("ant\n", "fewer than two"),
    ("", "fewer than two"),
    ("ant\nbee\n", "classes that --class_names lacks: cat"),
  ],
)
def test_names_of_classes_are_checked(tmp_path, text, message):
  pictures.tars(tmp_path / "tars")
  names = tmp_path / "names.txt"
  names.write_text(text)
  _refused(tmp_path, tmp_path / "tars", message, class_names=str(names))


def test_a_missing_file_of_names_is_a_sentence(tmp_path):
  pictures.tars(tmp_path / "tars")
  _refused(tmp_path, tmp_path / "tars", "No such file", class_names="/none")


def test_names_that_cannot_be_a_line_are_refused(tmp_path):
  pictures.tars(tmp_path / "tars")
  (tmp_path / "tars/bee.tar").rename(tmp_path / "tars/be\ne.tar")
  _refused(tmp_path, tmp_path / "tars", "cannot be printed; rename it")
