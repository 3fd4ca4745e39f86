"""Names of classes: lists of well-known datasets, files and words."""

import json

import pytest

from vit_jax.errors import UserError
from vit_jax.prompts import class_names


@pytest.mark.parametrize(
  ("name", "count", "some"),
  [
    ("imagenet", 1000, {0: "tench", 1: "goldfish", 207: "Golden Retriever"}),
    ("cifar10", 10, {0: "airplane", 1: "automobile", 9: "truck"}),
    ("cifar100", 100, {0: "apple", 41: "lawn mower", 99: "worm"}),
  ],
)
def test_the_lists_are_in_the_order_of_the_labels(name, count, some):
  names = class_names.read(name, key="--classes")
  assert len(names) == len(set(names)) + (2 if name == "imagenet" else 0)
  assert len(names) == count
  for label, expected in some.items():
    assert names[label][0].lower() == expected.lower()


def test_imagenet_21k_has_all_synsets_and_22k_all_but_two():
  all_names = class_names.read("imagenet21k", key="--classes")
  assert len(all_names) == 21_843
  assert [all_names[i][0] for i in (0, 4, 9205, 15_027)] == [
    "organism",
    "person",
    "picture",
    "bleacher",
  ]
  without = class_names.read("imagenet22k", key="--classes")
  assert (
    without == all_names[:9205] + all_names[9206:15_027] + (all_names[15_028:])
  )


def test_a_file_has_a_class_in_each_line(tmp_path):
  path = tmp_path / "classes.txt"
  path.write_bytes("\ufeffa cat\n\n  ein Bär \r\n".encode())
  assert class_names.read(str(path), key="k") == [("a cat",), ("ein Bär",)]


def test_a_json_list_may_give_a_class_several_names(tmp_path):
  path = tmp_path / "classes.json"
  path.write_text(json.dumps(["cat", ["car", "automobile"]]))
  assert class_names.read(str(path), key="k") == [
    ("cat",),
    ("car", "automobile"),
  ]


def test_numbers_to_names_are_in_the_order_of_the_numbers(tmp_path):
  path = tmp_path / "id2label.json"
  path.write_text(json.dumps({str(i): f"c{i}" for i in reversed(range(12))}))
  names = class_names.read(str(path), key="k")
  assert names == [(f"c{i}",) for i in range(12)]


@pytest.mark.parametrize(
  ("content", "words"),
  [
    (b"", ["no names of classes", "one in each line"]),
    (b"\xff\xfe\xfa", ["UTF-8"]),
  ],
)
def test_a_file_that_is_no_list_is_a_sentence(tmp_path, content, words):
  path = tmp_path / "classes.txt"
  path.write_bytes(content)
  with pytest.raises(UserError) as caught:
    class_names.read(str(path), key="config.evals.z.class_names")
  for word in (*words, "config.evals.z.class_names", "classes.txt"):
    assert word in str(caught.value)


@pytest.mark.parametrize(
  ("content", "words"),
  [
    ("{", "not JSON"),
    ('{"a": "b"}', "JSON list"),
    ('["cat", 3]', "class 1 is 3"),
    ('["cat", []]', "class 1 has no name"),
    ('["cat", "  "]', "class 1 has no name"),
    ('["cat", ["dog", null]]', "class 1 is"),
  ],
)
def test_a_damaged_json_list_names_what_is_wrong(tmp_path, content, words):
  path = tmp_path / "classes.json"
  path.write_text(content)
  with pytest.raises(UserError, match=words):
    class_names.read(str(path), key="--classes")


def test_a_missing_file_is_a_sentence():
  with pytest.raises(UserError, match="--classes: there is no file none.txt"):
    class_names.read("none.txt", key="--classes")


def test_folders_underscores_are_spaces():
  names = class_names.of_dataset(["a_red_car", "dog"])
  assert names == [("a red car",), ("dog",)]
