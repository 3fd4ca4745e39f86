import io

import numpy as np
import pytest
from PIL import Image, ImageOps, PngImagePlugin

from vit_jax.data import encoded
from vit_jax.data.tf_import import tf

ORIENTATION = 0x0112


def pixels_of(data):
  op = lambda image: image.pixels()  # noqa: E731
  form = tf.constant(encoded.form(data))
  return encoded.decode_into(op, tf.constant(data), form).numpy()


def with_orientation(pixels, value, **options):
  exif = Image.Exif()
  exif[0x010F] = "A camera"  # The orientation is not the first entry.
  exif[ORIENTATION] = value
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, "JPEG", exif=exif, **options)
  return file.getvalue()


@pytest.mark.parametrize("value", range(1, 9))
def test_exif_orientation_is_honoured_as_pillow_does(value, smooth):
  data = with_orientation(smooth(40, 64), value, quality=95)
  with Image.open(io.BytesIO(data)) as image:
    expected = np.asarray(ImageOps.exif_transpose(image)).astype(int)
  assert encoded.form(data) == value
  ours = pixels_of(data)
  assert ours.shape == expected.shape
  assert np.abs(ours - expected).max() <= 4  # Two JPEG decoders.


@pytest.mark.parametrize("value", [3, 6])
def test_a_window_of_a_turned_jpeg_is_cut_from_the_upright_image(value, smooth):
  data = with_orientation(smooth(40, 64), value)
  window = [3, 5, 20, 24]
  crop = encoded.decode_into(
    lambda image: image.crop(tf.constant(window)),
    tf.constant(data),
    tf.constant(encoded.form(data)),
  ).numpy()
  assert np.array_equal(crop, pixels_of(data)[3:23, 5:29])


@pytest.mark.parametrize("value", [0, 9, 77])
def test_an_orientation_that_does_not_exist_is_upright(value, smooth):
  data = with_orientation(smooth(16, 16), value)
  assert encoded.form(data) == encoded.UPRIGHT_JPEG


def test_big_endian_exif_is_read():
  entry = b"\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"
  tiff = b"MM\x00\x2a\x00\x00\x00\x08\x00\x01" + entry
  body = b"Exif\0\0" + tiff
  segment = b"\xff\xe1" + (len(body) + 2).to_bytes(2, "big") + body
  jfif = b"\xff\xe0\x00\x10JFIF\0" + bytes(9)
  assert encoded.form(b"\xff\xd8" + jfif + segment + b"\xff\xda") == 6


@pytest.mark.parametrize("cut", [3, 5, 12, 20, 24, 30, 40, 60])
def test_a_header_cut_off_anywhere_is_no_error(cut, smooth):
  data = with_orientation(smooth(16, 16), 6)
  assert encoded.form(data[:cut]) in range(1, 11)


def test_a_beginning_tells_the_orientation_or_that_it_is_too_short(smooth):
  data = with_orientation(smooth(16, 16), 6)
  told = [encoded.jpeg_orientation(data[:n]) for n in range(2, len(data))]
  enough = told.index(6)
  assert told[:enough] == [None] * enough
  assert told[enough:] == [6] * (len(told) - enough)


def test_a_path_may_stand_for_an_upright_jpeg(tmp_path, encode, smooth):
  data = encode(smooth(20, 30), "JPEG")
  path = tmp_path / "a.jpg"
  path.write_bytes(data)
  form = tf.constant(encoded.UPRIGHT_JPEG_FILE)
  pixels = encoded.decode_into(
    lambda image: image.pixels(), tf.constant(str(path)), form
  )
  assert np.array_equal(pixels.numpy(), pixels_of(data))


@pytest.mark.parametrize("format", ["PNG", "BMP", "GIF", "WEBP"])
def test_other_formats_are_decoded_exactly(format, encode, smooth):
  pixels = smooth(20, 30)
  options = {"lossless": True} if format == "WEBP" else {}
  data = encode(pixels, format, **options)
  expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
  result = pixels_of(data)
  if format != "GIF":
    assert np.array_equal(expected, pixels)
  assert np.array_equal(result, expected)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "1", "I;16"])
def test_pngs_of_any_mode_become_rgb(mode, smooth):
  image = Image.fromarray(smooth(12, 9))
  image = (
    Image.fromarray(smooth(12, 9)[..., 0].astype(np.uint16) * 257)
    if mode == "I;16"
    else image.convert(mode)
  )
  file = io.BytesIO()
  image.save(file, "PNG")
  result = pixels_of(file.getvalue())
  assert result.shape == (12, 9, 3)
  if mode == "I;16":
    assert np.array_equal(result[..., 0], smooth(12, 9)[..., 0])
  else:
    assert np.array_equal(result, np.asarray(image.convert("RGB")))


XMP = '<x:xmpmeta xmlns:x="adobe:ns:meta/" tiff:Orientation="6"/>'


@pytest.mark.parametrize("where", ["exif", "xmp", "raw"])
def test_pngs_may_say_anywhere_that_they_are_turned(where, smooth):
  """In EXIF, in XMP as Adobe does, or in ImageMagick's text of EXIF."""
  exif = Image.Exif()
  exif[ORIENTATION] = 6
  texts = PngImagePlugin.PngInfo()
  if where == "xmp":
    texts.add_itxt("XML:com.adobe.xmp", XMP)
  elif where == "raw":
    block = exif.tobytes()
    texts.add_text(
      "Raw profile type exif", f"\nexif\n{len(block):8}\n{block.hex()}\n"
    )
  file = io.BytesIO()
  options = {"exif": exif} if where == "exif" else {"pnginfo": texts}
  Image.fromarray(smooth(20, 30)).save(file, "PNG", **options)
  np.testing.assert_array_equal(
    pixels_of(file.getvalue()), np.rot90(smooth(20, 30), -1)
  )


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_jpegs_of_any_mode_become_rgb(mode, smooth):
  pixels = smooth(16, 24)
  file = io.BytesIO()
  Image.fromarray(pixels).convert(mode).save(file, "JPEG", quality=98)
  with Image.open(file) as image:
    expected = np.asarray(image.convert("RGB")).astype(int)
  assert np.abs(pixels_of(file.getvalue()) - expected).mean() < 2


def test_grey_pixels_become_rgb():
  grey = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
  result = encoded.PixelImage(tf.constant(grey)).pixels().numpy()
  assert np.array_equal(result, np.repeat(grey, 3, axis=-1))


def test_exif_may_come_after_a_comment(smooth):
  data = with_orientation(smooth(16, 24), 6)
  comment = b"\xff\xfe" + (2 + 5).to_bytes(2, "big") + b"hello"
  data = data[:2] + comment + data[2:]
  with Image.open(io.BytesIO(data)) as image:
    assert image.getexif()[ORIENTATION] == 6
  assert encoded.form(data) == 6
  assert pixels_of(data).shape == (24, 16, 3)


def test_bytes_outside_of_a_graph_may_end_in_zeros(encode):
  pixels = np.zeros((5, 8, 3), np.uint8)
  data = encode(pixels, "BMP")
  assert data.endswith(b"\0")
  np.testing.assert_array_equal(encoded.decode_other(data), pixels)
