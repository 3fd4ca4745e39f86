"""An evaluation's ops in NumPy, against those in TensorFlow."""

import io

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import encoded, numpy_ops, spec
from vit_jax.data.host_ops import HostOps
from vit_jax.data.tf_import import tf

RNG = np.random.default_rng(0)
PHOTO = Image.fromarray(RNG.integers(0, 256, (9, 12, 3), np.uint8)).resize(
  (80, 60), Image.Resampling.BICUBIC
)
STRINGS = [
  "decode|resize",
  "decode|resize(method='bicubic', antialias=True)",
  "decode|resize_small(40)|central_crop",
  "decode|resize_small(method='bicubic', antialias=True, scale=1.14)"
  "|central_crop",
  "decode|resize_small(37, rounding='down')|central_crop(rounding='nearest')",
]


def saved(image: Image.Image, form: str, **options) -> bytes:
  file = io.BytesIO()
  image.save(file, form, **options)
  return file.getvalue()


def exif(orientation: int) -> Image.Exif:
  tags = Image.Exif()
  tags[0x0112] = orientation
  return tags


SIXTEEN_BITS = Image.fromarray(RNG.integers(0, 2**16, (60, 80)).astype("u2"))
FILES = {
  "jpeg": saved(PHOTO, "JPEG", quality=90),
  "rough.jpeg": saved(PHOTO, "JPEG", quality=10),
  "progressive.jpeg": saved(PHOTO, "JPEG", progressive=True),
  "grey.jpeg": saved(PHOTO.convert("L"), "JPEG"),
  "full_colour.jpeg": saved(PHOTO, "JPEG", subsampling=0),
  "half_colour.jpeg": saved(PHOTO, "JPEG", subsampling=1),
  **{
    f"turned_{i}.jpeg": saved(PHOTO, "JPEG", exif=exif(i)) for i in range(1, 9)
  },
  "png": saved(PHOTO, "PNG"),
  "grey.png": saved(PHOTO.convert("L"), "PNG"),
  "grey_alpha.png": saved(PHOTO.convert("LA"), "PNG"),
  "black_and_white.png": saved(PHOTO.convert("1"), "PNG"),
  "palette.png": saved(PHOTO.convert("P"), "PNG"),
  "transparent.png": saved(PHOTO.convert("P"), "PNG", transparency=3),
  "alpha.png": saved(PHOTO.convert("RGBA"), "PNG"),
  "16_bits.png": saved(SIXTEEN_BITS, "PNG"),
  "webp": saved(PHOTO, "WEBP"),
}


@pytest.mark.parametrize("text", STRINGS)
def test_files_of_every_kind_give_tensorflows_pixels(text):
  preprocess = spec.parse(text, image_size=24)
  in_tensorflow = HostOps(preprocess, seed=0, is_encoded=True)
  reference = tf.function(
    lambda data, form: in_tensorflow(data, np.int64(0), form)
  )
  ops = numpy_ops.NumpyOps(preprocess)
  for name, data in FILES.items():
    expected = reference(tf.constant(data), tf.constant(encoded.form(data)))
    np.testing.assert_array_equal(ops(data), expected, err_msg=name)


@pytest.mark.parametrize(
  "data",
  [
    FILES["jpeg"][:-300],
    FILES["png"][:-300],
    saved(PHOTO.convert("CMYK"), "JPEG"),
    b"no image",
    b"",
  ],
  ids=["truncated jpeg", "truncated png", "cmyk", "text", "empty"],
)
def test_damaged_and_rare_files_are_errors_and_not_other_pixels(data):
  ops = numpy_ops.NumpyOps(spec.parse("decode|resize", image_size=24))
  with pytest.raises(Exception):  # noqa: B017 - Decoders' errors are of many kinds.
    ops(data)


def test_a_crop_larger_than_the_image_is_an_error():
  crop = numpy_ops.NumpyOps(spec.parse("decode|central_crop", image_size=70))
  with pytest.raises(ValueError, match="60 x 80"):
    crop(FILES["jpeg"])


def test_ops_that_draw_random_numbers_are_not_supported():
  known = spec.parse("decode|resize|keep('image')", image_size=24)
  random = spec.parse("decode|inception_crop", image_size=24)
  assert numpy_ops.supported(known) and not numpy_ops.supported(random)
