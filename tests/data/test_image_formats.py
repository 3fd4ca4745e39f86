"""Formats of image files and what is decoded of them."""

import io

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import image_formats


def encode(image, form, **options):
  file = io.BytesIO()
  image.save(file, form, **options)
  return file.getvalue()


@pytest.mark.parametrize("form", ["TIFF", "GIF", "AVIF", "HEIF", "WEBP"])
def test_its_first_bytes_are_recognised(form, smooth):
  data = encode(Image.fromarray(smooth(32, 24)), form)
  head = data[: image_formats.SIGNATURE_BYTES]
  assert image_formats.begins_like_one(head)
  assert not image_formats.begins_like_one(b"<html>")


@pytest.mark.parametrize("form", ["AVIF", "HEIF"])
def test_photographs_of_phones_are_close_to_the_original(form, smooth):
  pixels = smooth(48, 64)
  decoded = image_formats.pixels(encode(Image.fromarray(pixels), form))
  assert decoded.shape == pixels.shape
  assert np.abs(decoded.astype(int) - pixels).mean() < 4


@pytest.mark.parametrize("form", ["TIFF", "GIF"])
def test_of_many_pictures_the_first_is_taken(form):
  frames = [Image.new("RGB", (8, 6), color) for color in ("white", "black")]
  data = encode(frames[0], form, save_all=True, append_images=frames[1:])
  pixels = image_formats.pixels(data)
  assert pixels.shape == (6, 8, 3) and pixels.min() == 255


@pytest.mark.filterwarnings("error")
def test_images_larger_than_pillow_reads_by_itself_are_read(
  tmp_path, monkeypatch
):
  pixels = np.arange(72, dtype=np.uint8).reshape(6, 12)
  data = encode(Image.fromarray(pixels), "PNG")
  (tmp_path / "large.png").write_bytes(data)
  monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 32)
  with pytest.raises(Image.DecompressionBombError):
    Image.open(io.BytesIO(data))
  assert np.array_equal(image_formats.pixels(data)[..., 0], pixels)
  with image_formats.open_image(str(tmp_path / "large.png")) as image:
    assert np.array_equal(np.asarray(image), pixels)
  assert Image.MAX_IMAGE_PIXELS == 32


@pytest.mark.parametrize("form", ["TIFF", "PNG"])
def test_of_sixteen_bits_the_upper_eight_are_kept(form):
  grey = np.linspace(0, 2**16 - 1, 24).reshape(4, 6).astype(np.uint16)
  pixels = image_formats.pixels(encode(Image.fromarray(grey), form))
  expected = np.repeat(grey[..., None] // 256, 3, axis=-1)
  assert np.array_equal(pixels, expected)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_pixels_of_unknown_range_are_refused(kind):
  image = Image.fromarray(np.ones((4, 4), kind))
  with pytest.raises(
    image_formats.UnreadablePixelsError, match="32 bits a pixel"
  ):
    image_formats.pixels(encode(image, "TIFF"))
