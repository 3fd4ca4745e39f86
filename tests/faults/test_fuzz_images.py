"""Damaged image files of every form: refused by name, or decoded."""

import io
import random

import numpy as np
import pytest
from PIL import Image

from tests.faults import fuzz
from vit_jax.data import encoded, integrity, spec
from vit_jax.data.host_ops import HostOps
from vit_jax.data.tf_import import tf


def files():
  """Small whole files of the forms that people have."""
  y, x = np.mgrid[0:40, 0:50]
  waves = np.sin((x + y)[..., None] / np.array([3, 5, 7]))
  colour = Image.fromarray(np.uint8(128 + 100 * waves))
  deep = Image.fromarray(np.uint16(30_000 + 20_000 * waves[..., 0]))
  turned = Image.Exif()
  turned[0x112] = 6
  for image, form, options in (
    (colour, "JPEG", {}),
    (colour, "JPEG", {"progressive": True}),
    (colour, "JPEG", {"exif": turned}),
    (colour.convert("L"), "JPEG", {}),
    (colour.convert("CMYK"), "JPEG", {}),
    (colour, "PNG", {}),
    (colour, "PNG", {"exif": turned}),
    (colour.convert("P"), "PNG", {}),
    (colour.convert("1"), "PNG", {}),
    (colour.convert("RGBA"), "PNG", {}),
    (deep, "PNG", {}),
    (colour, "WEBP", {}),
    (colour, "WEBP", {"lossless": True}),
    (colour, "BMP", {}),
    (colour.convert("P"), "BMP", {}),
    (colour, "GIF", {}),
    (colour, "TIFF", {}),
    (colour, "PPM", {}),
  ):
    file = io.BytesIO()
    image.save(file, form, **options)
    yield file.getvalue()


@pytest.fixture(scope="module")
def pipeline():
  """(bytes, row) -> pixels, as the input pipeline computes them."""
  preprocess = spec.parse("decode|inception_crop(16)", 16)
  ops = HostOps(preprocess, seed=0, is_encoded=True)

  def decode(data, row, form):
    return ops(data, row, form)

  return tf.function(
    decode,
    input_signature=[
      tf.TensorSpec([], tf.string),
      tf.TensorSpec([], tf.int64),
      tf.TensorSpec([], tf.int32),
    ],
    autograph=False,
  )


@pytest.mark.parametrize(
  "num_cases",
  [
    pytest.param(1000, id="some"),
    pytest.param(20_000, id="many", marks=pytest.mark.exhaustive),
  ],
)
def test_a_damaged_file_is_decoded_or_found_out(pipeline, num_cases):
  rng = random.Random(3)
  whole = list(files())
  for data in whole:
    assert pipeline(data, 0, encoded.form(data)).shape == (16, 16, 3)
  decoded = 0
  for case in range(num_cases):
    data = fuzz.mutated(rng.choice(whole), rng)
    try:
      pipeline(data, case, encoded.form(data))
      decoded += 1
    except tf.errors.OpError:
      # A person is told of what stops the pipeline.
      assert integrity.decoding_problem(data)
  assert num_cases / 10 < decoded < num_cases / 2
