"""Numbers to predict in the columns of a CSV file."""

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import csv_numbers, sources
from vit_jax.errors import UserError

PLAIN = """file_name,age,height,split
1.jpg,31.5,1.8,train
2.jpg,-4,1e-3,train
3.jpg, 7 ,2,test
"""


@pytest.fixture
def people(tmp_path):
  """A function that opens a CSV file beside three images."""
  for number in range(1, 4):
    Image.new("RGB", (8, 8), (40 * number, 0, 0)).save(
      tmp_path / f"{number}.jpg"
    )

  def opened(text=PLAIN, columns="", split="train", **options):
    (tmp_path / "ages.csv").write_text(text)
    return sources.open_source(
      f"csv:ages.csv{columns}", split, data_dir=str(tmp_path), **options
    )

  return opened


def found(source):
  """File -> its numbers as they are read."""
  ids = np.arange(source.num_examples)
  names = [name.rpartition("/")[2] for name in source.names(ids)]
  return dict(zip(names, source.read(ids)["label"].tolist(), strict=True))


def test_a_named_column_has_the_number_of_each_image(people):
  source = people(columns=",target=age")
  assert source.numbers == ("age",)
  assert (source.num_classes, source.label, source.max_labels) == (
    None,
    None,
    0,
  )
  assert found(source) == {"1.jpg": [31.5], "2.jpg": [-4.0]}
  assert sorted(source.known_labels().tolist()) == [[-4.0], [31.5]]
  assert found(people(columns=",target=age", split="test")) == {"3.jpg": [7.0]}


def test_several_columns_keep_the_order_in_which_they_are_named(people):
  source = people(columns=",target=height,target=age")
  assert source.numbers == ("height", "age")
  assert found(source) == {"1.jpg": [1.8, 31.5], "2.jpg": [0.001, -4.0]}


@pytest.mark.parametrize("head", ["target", "label", "value"])
def test_a_column_of_a_usual_name_is_taken_where_numbers_are_asked_for(
  people, head
):
  text = f"image,{head}\n1.jpg,3\n2.jpg,5\n"
  assert found(people(text, numbers=True)) == {"1.jpg": [3.0], "2.jpg": [5.0]}


def test_a_label_that_is_named_is_a_number_where_they_are_asked_for(people):
  assert people(columns=",label=age", numbers=True).numbers == ("age",)


def test_whole_numbers_are_classes_unless_numbers_are_asked_for(people):
  text = "image,label\n1.jpg,3\n2.jpg,5\n"
  assert people(text).num_classes == 6
  assert people(text, numbers=True).num_classes is None


def test_other_numbers_and_other_columns_are_other_data(people):
  prints = {
    people(text, columns).fingerprint
    for text in (PLAIN, PLAIN.replace("31.5", "31.25"))
    for columns in (
      ",target=age",
      ",target=height",
      ",target=age,target=height",
    )
  }
  assert len(prints) == 5  # Heights are the same in both.


@pytest.mark.parametrize(
  ("value", "problem"),
  [
    ("old", r"column 'age': 'old' is not a number"),
    ("", r"no number in column 'age'"),
    ("nan", r"column 'age': 'nan' is not finite"),
    ("-inf", r"column 'age': '-inf' is not finite"),
    ("1e39", r"column 'age': '1e39' is not finite"),
    ("1_000", r"column 'age': '1_000' is not a number"),
    ("3 years", r"column 'age': '3 years' is not a number"),
  ],
)
def test_what_is_no_number_is_named_by_file_line_column_and_value(
  people, value, problem
):
  text = PLAIN.replace("-4", value)
  with pytest.raises(UserError, match=rf"ages.csv has .* line 3 \({problem}\)"):
    people(text, ",target=age")


@pytest.mark.parametrize(
  ("text", "columns", "message"),
  [
    (PLAIN, ",target=weight", "has no column 'weight'; its columns are"),
    (
      PLAIN,
      "",
      "of which none is the target; call it target or label or value",
    ),
    ("image,labels\n1.jpg,3\n", ",labels=labels", "write target=COLUMN"),
  ],
)
def test_columns_that_are_not_there_are_named(people, text, columns, message):
  with pytest.raises(UserError, match=message):
    people(text, columns, numbers=True)


@pytest.mark.parametrize(
  ("columns", "message"),
  [
    (
      ",target=age,label=age",
      "of classes, label=, and one of numbers, target=",
    ),
    (",target=age,target=age", "'target=age' comes after target=age"),
    (",label=a,label=b", "'label=b' comes after label=a"),
  ],
)
def test_columns_that_contradict_one_another_are_refused(columns, message):
  with pytest.raises(UserError, match=message):
    sources.check(f"csv:ages.csv{columns}")


def test_fractions_are_no_classes(people):
  text = "image,label\n1.jpg,3\n2.jpg,5.5\n3.jpg,-1\n"
  with pytest.raises(UserError, match="such as 5.5 in its column 'label'") as e:
    people(text)
  assert "set config.objective.loss = 'mse'" in str(e.value)
  assert "'csv:FILE,target=label'" in str(e.value)


@pytest.mark.parametrize("names", ["1.0,2.0", "v1.5,v2.5", "-1,1", "1.5,many"])
def test_names_of_classes_may_look_like_numbers(people, names):
  one, other = names.split(",")
  source = people(f"image,label\n1.jpg,{one}\n2.jpg,{other}\n")
  assert source.class_names == tuple(sorted((one, other)))


def test_fractions_are_found_among_numbers_alone():
  assert csv_numbers.fraction(["1", "2.25", "-3e0"]) == "2.25"
  assert csv_numbers.fraction(["1", "2.0"]) is None
  assert csv_numbers.fraction(["1.5", "x"]) is None
  assert csv_numbers.fraction([]) is None
