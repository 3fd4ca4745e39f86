"""The contact sheet: pictures, their links, and names of every kind."""

import io
import os
import re

import pytest
from PIL import Image

from vit_jax.report import contact_sheet
from vit_jax.report.contact_sheet import Answer, Picture


def jpeg(width, height):
  file = io.BytesIO()
  Image.new("RGB", (width, height)).save(file, "JPEG")
  return file.getvalue()


def page(*answers, **changes):
  facts = {
    "images": "/photos",
    "num_images": 1234,
    "num_unreadable": 0,
    "checkpoint": "clip",
    "step": None,
    **changes,
  }
  return contact_sheet.render(answers, **facts).decode()


def plain(html):
  return re.sub(r"<wbr>", "", html)


def test_each_picture_has_its_score_name_and_folder():
  found = [
    Picture("/photos/home/cat.jpg", jpeg(40, 20), 0.3125),
    Picture("/photos/dog.jpg", jpeg(20, 20), -0.25),
  ]
  html = plain(page(Answer("an animal", None, found)))
  assert "an animal" in html and "1,234 images of /photos" in html
  for words in ("cat.jpg", "home", "0.312", "dog.jpg", "-0.250"):
    assert words in html
  assert html.count("data:image/jpeg;base64,") == 2
  assert 'href="file:///photos/home/cat.jpg"' in html


@pytest.mark.parametrize(
  ("size", "ratio"), [((40, 20), 2.0), ((20, 30), 2 / 3), ((900, 9), 3.0)]
)
def test_a_picture_keeps_its_shape_within_limits(size, ratio):
  assert Picture("a.jpg", jpeg(*size)).ratio == pytest.approx(ratio)


@pytest.mark.parametrize("number", [1, 3])
def test_a_row_that_is_not_full_is_filled_up_as_by_the_last_picture(number):
  """Without that its pictures would be wider than those of other rows."""
  picture = Picture("a.jpg", jpeg(40, 20), 0.5)
  html = page(Answer("a cat", None, [picture] * number), Answer("b", None, []))
  shape = '<li style="--ratio: 2.0000">'
  rest = '<li class="rest" aria-hidden="true" style="--ratio: 2.0000"></li>'
  assert html.count(shape) == number
  # As many as there are of the narrowest in a row of the widest page.
  assert html.count(rest) == html.count("<li class") == 11
  assert html.rindex(shape) < html.index(rest)


@pytest.mark.parametrize(
  "data", [None, b"", b"\xff\xd8", b"\xff\xd8" + b"0" * 9]
)
def test_a_picture_that_is_gone_or_torn_is_square(data):
  assert Picture("a.jpg", data).ratio == 1


def test_a_file_that_is_gone_is_said_to_be():
  html = page(Answer("a cat", None, [Picture("/photos/cat.jpg", None, 0.5)]))
  assert "The file is gone." in html


def test_a_query_may_be_a_picture():
  query = Picture("/elsewhere/asked.jpg", jpeg(30, 20))
  html = plain(page(Answer("/elsewhere/asked.jpg", query, [])))
  assert "asked.jpg" in html and "/elsewhere" in html
  assert html.count("data:image/jpeg;base64,") == 1


def test_names_and_queries_are_shown_as_they_are_written():
  odd = os.fsdecode(b"/photos/<i>\xff.jpg")
  html = page(Answer("<script>", None, [Picture(odd, None, 0.5)]))
  assert "<script>" not in html and "<i>" not in html
  assert "&lt;script&gt;" in html


def test_files_left_out_and_the_step_are_told():
  html = page(Answer("a", None, []), num_unreadable=3, step=1200)
  assert "no images that can be read: 3." in html and "step 1,200" in html
