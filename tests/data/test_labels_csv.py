"""Image files with labels in a CSV file."""

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import sources
from vit_jax.errors import UserError

PLAIN = """file_name,label
a/1.jpg,dog
a/2.jpg,cat
a/3.jpg,dog
b/4.png,cat
"""


@pytest.fixture
def pets(tmp_path):
  """A folder of images, and a function that opens a CSV file in it."""
  for number, name in enumerate(("a/1.jpg", "a/2.jpg", "a/3.jpg", "b/4.png")):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (8, 8), (40 * number, 0, 0)).save(path)

  def opened(text, split="train", columns="", **options):
    (tmp_path / "labels.csv").write_text(text, newline="")
    return sources.open_source(
      f"csv:labels.csv{columns}", split, data_dir=str(tmp_path), **options
    )

  opened.place = tmp_path
  return opened


def found(source):
  """File -> label as it is read."""
  ids = np.arange(source.num_examples)
  names = [name.rpartition("/")[2] for name in source.names(ids)]
  return dict(zip(names, source.read(ids)["label"].tolist(), strict=True))


def test_names_of_classes_are_numbered_in_their_order(pets):
  source = pets(PLAIN)
  assert source.class_names == ("cat", "dog") and source.num_classes == 2
  assert found(source) == {"1.jpg": 1, "2.jpg": 0, "3.jpg": 1, "4.png": 0}
  assert sorted(source.known_labels().tolist()) == [0, 0, 1, 1]


def test_numbers_stay_what_they_are(pets):
  source = pets("image;class\na/1.jpg;3\na/2.jpg;0\n")
  assert source.class_names is None and source.num_classes == 4
  assert found(source) == {"1.jpg": 3, "2.jpg": 0}


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_lines_may_end_as_other_systems_end_them(pets, end):
  source = pets(f"image;label{end}a/1.jpg;b{end}a/2.jpg;a{end}")
  assert found(source) == {"1.jpg": 1, "2.jpg": 0}


def test_empty_fields_after_the_last_column_are_ignored(pets):
  assert found(pets(PLAIN.replace("dog\n", "dog,,\n"))) == found(pets(PLAIN))


def test_an_image_may_have_several_labels_or_none(pets):
  text = "path\tlabels\na/1.jpg\tred|round\na/2.jpg\t\na/3.jpg\tred\n"
  source = pets(text)
  assert source.class_names == ("red", "round") and source.max_labels == 2
  assert found(source) == {"1.jpg": [0, 1], "2.jpg": [-1, -1], "3.jpg": [0, -1]}
  assert source.known_labels().shape == (3, 2)


def test_a_column_tells_the_split_and_classes_are_those_of_all(pets):
  text = (
    "file_name,label,split\na/1.jpg,dog,train\na/2.jpg,cat,test\n"
    "a/3.jpg,ape,train\n"
  )
  assert found(pets(text)) == {"1.jpg": 2, "3.jpg": 0}
  assert found(pets(text, "test")) == {"2.jpg": 1}
  with pytest.raises(UserError, match=r"Present: train \(2 examples\), test"):
    pets(text, "val")


def test_columns_of_other_names_can_be_named(pets):
  text = "label,picture,breed,fold\n1,a/1.jpg,pug,x\n1,a/2.jpg,tabby,x\n"
  columns = ",image=picture,label=breed,split=fold"
  source = pets(text, "x", columns)
  assert source.class_names == ("pug", "tabby")


def test_parts_hold_every_class_and_the_order_is_not_that_of_the_file(pets):
  for number in range(40):
    Image.new("RGB", (4, 4)).save(pets.place / f"{number:02}.png")
  rows = [f"{number:02}.png,{'ab'[number >= 20]}" for number in range(40)]
  text = "image,label\n" + "\n".join(rows)
  half = pets(text, "train[:50%]").read(np.arange(20))["label"]
  assert 0.2 < half.mean() < 0.8
  assert (
    pets(text).fingerprint
    == pets("image,label\n" + "\n".join(rows[::-1])).fingerprint
  )
  assert pets(text).fingerprint != pets(text.replace(",b", ",c", 1)).fingerprint


def test_a_file_of_the_working_directory_needs_no_data_dir(pets, monkeypatch):
  (pets.place / "labels.csv").write_text(PLAIN)
  monkeypatch.chdir(pets.place)
  source = sources.open_source("csv:labels.csv", "train", data_dir=None)
  assert len(found(source)) == 4


def test_other_numbers_of_the_classes_are_other_data(pets):
  """A class that only another split has may move those after it."""
  text = (
    "image,label,split\na/1.jpg,b,train\na/2.jpg,c,train\na/3.jpg,{},test\n"
  )
  first, second = pets(text.format("a")), pets(text.format("d"))
  assert found(first) != found(second)
  assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("image,label,tags\n", "columns 'label' and 'tags'; name the one"),
    ("", "begins with no names of columns"),
    ("\n", "begins with no names of columns"),
    ("name,label\n", "of which none is the image; call it file_name"),
    ("image,kind\n", "of which none is the label"),
    ("image,label\n", "has no rows"),
    ("image,label\na/1.jpg,\n", r"line 2 \(no label\)"),
    ("image,label\n,dog\n", r"line 2 \(no file name"),
    (PLAIN + "b/5.png,cat, big\n", r"line 6 \(too many columns; a text with"),
    ("image,label\n../x.jpg,dog\n", "outside of the file's directory"),
    ("image,label\n/etc/x.jpg,dog\n", "outside of the file's directory"),
    (PLAIN + "a/1.jpg,cat\n", r"line 6 \(the image of line 2 again\)"),
    ("image,label\na/1.jpg,dog\n", "has one class"),
    (
      "image,label\na/1.jpg,99999999999\na/2.jpg,0\n",
      "has the class 99999999999, and a model can have 1048576",
    ),
    ('image,label\n"a/1.jpg,dog\n', "a quoted text does not end"),
    (PLAIN + "a/9.jpg,cat\n", "a/9.jpg cannot be read"),
    (PLAIN + "b\\4.png,cat\n", r"cannot be read .*; write / instead of \\"),
  ],
)
def test_what_is_wrong_is_a_sentence(pets, text, message):
  with pytest.raises(UserError, match=message):
    pets(text)


def test_a_link_that_leads_elsewhere_is_refused(pets, tmp_path_factory):
  other = tmp_path_factory.mktemp("other") / "x.jpg"
  Image.new("RGB", (8, 8)).save(other)
  (pets.place / "link.jpg").symlink_to(other)
  with pytest.raises(UserError, match="is a link to"):
    pets(PLAIN + "link.jpg,cat\n")


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("csv:", "name the file"),
    ("csv:a.csv,colour=x", "'colour=x' names no column"),
    ("csv:a.csv,image=", "'image=' names no column"),
  ],
)
def test_another_form_of_name_is_refused(name, message):
  with pytest.raises(UserError, match=message):
    sources.check(name)


def test_a_file_that_is_not_there_is_named(tmp_path):
  with pytest.raises(UserError, match="none.csv cannot be read"):
    sources.open_source("csv:none.csv", "train", data_dir=str(tmp_path))


def test_broken_text_is_named_by_its_line(pets):
  (pets.place / "bad.csv").write_bytes(b"image,label\na/1.jpg,d\xffg\n")
  with pytest.raises(UserError, match="line 2: broken UTF-8"):
    sources.open_source("csv:bad.csv", "train", data_dir=str(pets.place))
