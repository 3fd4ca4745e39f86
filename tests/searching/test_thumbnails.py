"""Small pictures: their size, their turn, and what is no image."""

import io

import numpy as np
from PIL import Image

from vit_jax.searching import thumbnails


def opened(data):
  return Image.open(io.BytesIO(data))


def test_a_picture_is_shrunk_and_keeps_its_shape(tmp_path):
  Image.new("RGB", (1400, 700), "red").save(tmp_path / "a.png")
  path = str(tmp_path / "a.png")
  small = opened(thumbnails.jpegs([path])[path])
  assert small.size == (thumbnails.LONGEST_SIDE, thumbnails.LONGEST_SIDE // 2)


def test_a_turned_photograph_stands_upright(tmp_path):
  pixels = np.zeros((40, 80, 3), np.uint8)
  pixels[:, 40:] = 255
  turned = Image.Exif()
  turned[0x0112] = 6  # The top of the scene is at the right side.
  Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=turned)
  path = str(tmp_path / "a.jpg")
  small = opened(thumbnails.jpegs([path])[path])
  assert small.size == (40, 80)
  values = np.asarray(small.convert("L"))
  assert values[:30].max() < 50 and values[50:].min() > 200


def test_of_sixteen_bits_the_upper_eight_are_shown(tmp_path):
  path = str(tmp_path / "a.png")
  Image.fromarray(np.full((40, 40), 100 * 256, np.uint16)).save(path)
  values = np.asarray(opened(thumbnails.jpegs([path])[path]))
  assert np.abs(values.astype(int) - 100).max() <= 2


def test_what_is_no_image_has_no_picture(tmp_path):
  (tmp_path / "a.jpg").write_text("no image")
  paths = [str(tmp_path / name) for name in ("a.jpg", "gone.jpg")]
  assert thumbnails.jpegs(paths) == dict.fromkeys(paths)
