"""Images one at a time, with TensorFlow or without."""

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import encoded, spec
from vit_jax.data.host_ops import HostOps
from vit_jax.data.single_images import SingleImages

PIXELS = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)


def saved(image: Image.Image, **options) -> bytes:
  file = io.BytesIO()
  image.save(file, "JPEG", **options)
  return file.getvalue()


@pytest.mark.parametrize(
  ("text", "mode"),
  [
    ("decode|resize", "RGB"),
    ("decode|resize", "CMYK"),  # Only TensorFlow decodes it.
    ("decode|pad(2)|resize", "RGB"),  # So it is with this op.
  ],
)
def test_all_files_and_ops_give_the_pixels_of_an_evaluation(text, mode):
  preprocess = spec.parse(text, image_size=16)
  data = saved(Image.fromarray(PIXELS).convert(mode))
  ops = HostOps(preprocess, seed=0, is_encoded=True)
  expected = ops(data, np.int64(0), np.int32(encoded.form(data))).numpy()
  result = SingleImages(preprocess).of_file(data)
  np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("text", ["decode|resize", "decode|pad(2)|resize"])
def test_pixels_need_no_decoding(text):
  preprocess = spec.parse(text, image_size=16)
  ops = HostOps(preprocess, seed=0, is_encoded=False)
  np.testing.assert_array_equal(
    SingleImages(preprocess).of_pixels(PIXELS),
    ops(PIXELS, np.int64(0)).numpy(),
  )


def test_a_photograph_is_prepared_without_tensorflow(tmp_path):
  (tmp_path / "photo.jpg").write_bytes(saved(Image.fromarray(PIXELS)))
  program = (
    "import sys\n"
    "from vit_jax.data import image_files, spec\n"
    "preprocess = spec.parse('decode|resize', 16)\n"
    "((file,),) = image_files.read(sys.argv[1:], preprocess, batch_size=1)\n"
    "assert file.pixels.shape == (16, 16, 3)\n"
    "assert 'tensorflow' not in sys.modules\n"
  )
  command = [sys.executable, "-c", program, str(tmp_path / "photo.jpg")]
  subprocess.run(command, check=True)
