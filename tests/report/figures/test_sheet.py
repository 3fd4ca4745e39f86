"""Sheets of pictures."""

import io

import numpy as np
from PIL import Image

from vit_jax.report.figures import canvas, colours, sheet

RNG = np.random.default_rng(0)
PHOTOS = [RNG.integers(0, 256, (16, 16, 3), np.uint8) for _ in range(5)]


def test_a_sheet_is_as_large_as_its_pictures():
  rows = [sheet.Row(PHOTOS[:3]), sheet.Row(PHOTOS[3:5])]
  plain = sheet.draw(rows, side=50.0, gap=4.0)
  assert plain.width == 4 + 3 * 54 - 4 + 4
  assert plain.height == 4 + 2 * 54 - 4 + 4


def test_pictures_stand_at_their_row_and_column():
  plain = [np.full((4, 4, 3), 40 * n, np.uint8) for n in range(4)]
  rows = [sheet.Row(plain[:2]), sheet.Row(plain[2:])]
  picture = sheet.draw(rows, side=20.0, gap=4.0)
  with Image.open(io.BytesIO(picture.png())) as image:
    points = np.asarray(image.reduce(canvas.SCALE))
  centres = [points[y, x, 0] for y in (14, 38) for x in (14, 38)]
  assert centres == [0, 40, 80, 120]


def test_names_titles_and_a_bar_take_room_beside_the_pictures():
  bar = sheet.ColourBar(colours.sequential, 0.0, 1.0, [(0.5, "half")], "share")
  plain = sheet.draw([sheet.Row(PHOTOS[:2])], side=50.0)
  rows = [sheet.Row(PHOTOS[:2], name="image", titles=["1", "2"])]
  named = sheet.draw(rows, side=50.0, row_label="x", column_label="y", bar=bar)
  assert named.width > plain.width + 50
  assert named.height > plain.height + 20
