"""Lists of images and captions, and what is wrong with their lines."""

import csv

import pytest

from vit_jax.data import caption_lists
from vit_jax.errors import UserError

TOO_MANY = "too many columns; captions with commas need double quotes"


def rows(tmp_path, name, content):
  path = tmp_path / name
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return [
    (row.line, row.image, row.captions, row.problem)
    for row in caption_lists.read(str(path))
  ]


@pytest.mark.parametrize("image", ["file_name", "image", "filepath"])
@pytest.mark.parametrize("caption", ["caption", "text", "title"])
def test_columns_go_by_the_names_in_use(image, caption, tmp_path):
  content = f"id,{caption},{image}\n7,a dog,1.jpg\n8,a cat,2.jpg\n"
  assert rows(tmp_path, "captions.csv", content) == [
    (2, "1.jpg", ("a dog",), ""),
    (3, "2.jpg", ("a cat",), ""),
  ]


def test_csv_is_read_as_pythons_writer_writes_it(tmp_path):
  captions = ['a "red", car', "two\nlines", "naïve café 🐶", "  spaces "]
  with open(tmp_path / "captions.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["image", "caption"])
    writer.writerows((f"{i}.jpg", text) for i, text in enumerate(captions))
  content = (tmp_path / "captions.csv").read_bytes()
  found = rows(tmp_path, "captions.csv", content)
  assert [texts for _, _, texts, _ in found] == [
    (text.strip(),) for text in captions
  ]
  assert [line for line, *_ in found] == [2, 3, 5, 6]


def test_tabs_and_a_byte_order_mark_are_understood(tmp_path):
  content = "\ufeffFilePath\tTitle\n1.jpg\ta dog, asleep\n"
  assert rows(tmp_path, "train.tsv", content) == [
    (2, "1.jpg", ("a dog, asleep",), "")
  ]


def test_json_lines_hold_one_caption_or_a_list(tmp_path):
  content = (
    '{"image": "a/1.jpg", "caption": "a dog"}\n\n'
    '{"file_name": "2.jpg", "captions": ["a cat", "a gat\\u00f2"]}\n'
  )
  assert rows(tmp_path, "train.jsonl", content) == [
    (1, "a/1.jpg", ("a dog",), ""),
    (3, "2.jpg", ("a cat", "a gatò"), ""),
  ]


@pytest.mark.parametrize(
  ("line", "found"),
  [
    (b'{"image": "1.jpg", "text": ""}', ("1.jpg", (), "empty caption")),
    (
      b'{"image": "1.jpg", "text": ["a", " "]}',
      ("1.jpg", ("a",), "empty caption"),
    ),
    (b'{"image": "1.jpg"}', ("1.jpg", (), "no caption")),
    (b'{"image": "1.jpg", "text": []}', ("1.jpg", (), "no caption")),
    (
      b'{"image": "1.jpg", "text": [3]}',
      ("1.jpg", (), "caption that is no text"),
    ),
    (b'{"image": "1.jpg", "text": "\xff"}', (None, (), "broken UTF-8")),
    (
      b'{"image": "1.jpg", "text": "\\ud800"}',
      ("1.jpg", (), "broken UTF-8"),
    ),
    (b'{"text": "a dog"}', (None, ("a dog",), "no file name of an image")),
    (b'{"image": 3, "text": "a"}', (None, ("a",), "no file name of an image")),
    (b"[1, 2]", (None, (), "no JSON object")),
    (b'{"image": "1.jpg", ', (None, (), "no JSON object")),
  ],
)
def test_a_line_of_json_that_cannot_be_used_says_why(line, found, tmp_path):
  good = b'{"image": "0.jpg", "text": "good"}'
  first, second, third = rows(
    tmp_path, "a.jsonl", good + b"\n" + line + b"\n" + good
  )
  assert second == (2, *found)
  assert first[1:] == third[1:] == ("0.jpg", ("good",), "")


@pytest.mark.parametrize(
  ("line", "found"),
  [
    (b"1.jpg,", ("1.jpg", (), "empty caption")),
    (b"1.jpg", ("1.jpg", (), "too few columns")),
    (b"1.jpg,a dog, asleep", ("1.jpg", (), TOO_MANY)),
    (b"1.jpg,a dog,,", ("1.jpg", ("a dog",), "")),
    (b'1.jpg,"a dog, asleep"', ("1.jpg", ("a dog, asleep",), "")),
    (b",a dog", (None, ("a dog",), "no file name of an image")),
    (b"1.jpg,caf\xe9", ("1.jpg", (), "broken UTF-8")),
    (b"\xe9.jpg,a dog", (None, ("a dog",), "broken UTF-8")),
  ],
)
def test_a_line_of_csv_that_cannot_be_used_says_why(line, found, tmp_path):
  content = b"image,caption\n0.jpg,good\n" + line + b"\n0.jpg,good\n"
  first, second, third = rows(tmp_path, "a.csv", content)
  assert second == (3, *found)
  assert first[1:] == third[1:] == ("0.jpg", ("good",), "")


def test_a_quote_that_is_left_open_does_not_swallow_the_rest(tmp_path):
  content = 'image,caption\n1.jpg,a dog\n2.jpg,"a cat\n3.jpg,a cow\n'
  with pytest.raises(UserError, match="line 3: a quoted text does not end"):
    rows(tmp_path, "a.csv", content)


@pytest.mark.parametrize("opens", ["", '"'])
def test_a_text_beyond_all_bounds_is_said_to_be_that(opens, tmp_path):
  content = f"image,caption\n1.jpg,a dog\n2.jpg,{opens}{'a cat ' * 30_000}\n"
  with pytest.raises(UserError, match="line 3: a text is longer than 131,072"):
    rows(tmp_path, "a.csv", content)


def test_keys_without_a_value_are_passed_over(tmp_path):
  content = (
    '{"image": null, "file_name": "1.jpg", "caption": null, "text": "a dog"}\n'
    '{"image": "2.jpg", "caption": null}\n'
  )
  assert rows(tmp_path, "a.jsonl", content) == [
    (1, "1.jpg", ("a dog",), ""),
    (2, "2.jpg", (), "no caption"),
  ]


@pytest.mark.parametrize("content", ["", "1.jpg,a dog\n2.jpg,a cat\n"])
def test_columns_without_names_are_refused(content, tmp_path):
  with pytest.raises(UserError, match="has to name its columns"):
    rows(tmp_path, "a.csv", content)
