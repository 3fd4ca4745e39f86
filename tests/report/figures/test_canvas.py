"""A canvas puts marks where it is told, at the resolution that it says."""

import io

import numpy as np
from PIL import Image

from vit_jax.report.figures import canvas


def pixels(drawn):
  with Image.open(io.BytesIO(drawn.png())) as image:
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


def inked(drawn):
  """Points whose pixel is not white: (left, top, right, bottom)."""
  rows, columns = np.nonzero((pixels(drawn) < 250).any(axis=-1))
  box = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
  return tuple(float(value) / canvas.SCALE for value in box)


def test_a_file_has_its_points_and_says_its_resolution():
  drawn = canvas.Canvas(40.0, 25.0)
  with Image.open(io.BytesIO(drawn.png())) as image:
    assert image.size == (40 * canvas.SCALE, 25 * canvas.SCALE)
    assert round(image.info["dpi"][0]) == 96 * canvas.SCALE
  assert (pixels(drawn) == 255).all()


def test_a_picture_fills_its_rectangle_and_small_ones_stay_sharp():
  drawn = canvas.Canvas(40.0, 40.0)
  board = np.zeros((2, 2, 3), np.uint8)
  board[0, 0] = board[1, 1] = (200, 10, 30)
  drawn.picture(10.0, 5.0, 20.0, 20.0, board)
  assert inked(drawn) == (10, 5, 30, 25)
  inside = pixels(drawn)[5 * canvas.SCALE : 25 * canvas.SCALE]
  inside = inside[:, 10 * canvas.SCALE : 30 * canvas.SCALE].reshape(-1, 3)
  found = {tuple(colour) for colour in inside.tolist()}
  assert found == {(0, 0, 0), (200, 10, 30)}


def test_dots_and_lines_lie_around_their_places():
  drawn = canvas.Canvas(40.0, 40.0)
  drawn.dot(20.0, 20.0, 3.0, "#000000")
  np.testing.assert_allclose(inked(drawn), (17, 17, 23, 23), atol=0.4)
  drawn = canvas.Canvas(40.0, 40.0)
  drawn.line([(5.0, 30.0), (35.0, 30.0)], "#000000", width=2.0)
  np.testing.assert_allclose(inked(drawn), (5, 29, 35, 31), atol=0.4)


def test_dashes_leave_gaps():
  drawn = canvas.Canvas(60.0, 10.0)
  drawn.line([(0.0, 5.0), (60.0, 5.0)], "#000000", width=2.0, dash=5.0)
  row = pixels(drawn)[5 * canvas.SCALE, :, 0] < 128
  assert np.count_nonzero(np.diff(row.astype(int)) == -1) == 6
  assert 0.4 < row.mean() < 0.6


def test_text_has_the_width_that_is_said_and_turned_text_reads_upwards():
  words = "patch row"
  drawn = canvas.Canvas(100.0, 30.0)
  drawn.text(10.0, 20.0, words)
  left, top, right, bottom = inked(drawn)
  np.testing.assert_allclose(right - left, canvas.text_width(words), atol=1.5)
  assert top > 5 and bottom < 25
  drawn = canvas.Canvas(30.0, 100.0)
  drawn.text(15.0, 50.0, words, turned=True)
  left, top, right, bottom = inked(drawn)
  np.testing.assert_allclose(bottom - top, canvas.text_width(words), atol=1.5)
  np.testing.assert_allclose((top + bottom) / 2, 50, atol=1)


def test_a_minus_sign_is_one_that_the_font_has():
  ours, plain = canvas.Canvas(40.0, 20.0), canvas.Canvas(40.0, 20.0)
  ours.text(5.0, 15.0, "\N{MINUS SIGN}3")
  plain.text(5.0, 15.0, "-3")
  np.testing.assert_array_equal(pixels(ours), pixels(plain))
