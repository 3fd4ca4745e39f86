import os
import subprocess
import sys

import pytest


def _run(code):
  command = [sys.executable, "-c", code]
  env = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
  return subprocess.run(
    command, capture_output=True, text=True, check=True, env=env
  )


def test_import_is_late_and_quiet():
  run = _run(
    "import sys; from vit_jax.data.tf_import import tf;"
    "assert 'tensorflow' not in sys.modules; tf.constant(1);"
    "assert 'tensorflow' in sys.modules; print('end', file=sys.stderr);"
    "assert not {'keras', 'sklearn'} & set(sys.modules)"
  )
  assert run.stderr == "end\n"


@pytest.mark.slow
def test_stderr_outlives_a_first_use_by_several_threads_at_once():
  run = _run(
    "import sys, concurrent.futures; from vit_jax.data.tf_import import tf\n"
    "with concurrent.futures.ThreadPoolExecutor(4) as pool:\n"
    "  list(pool.map(lambda i: tf.constant(i), range(8)))\n"
    "print('end', file=sys.stderr)"
  )
  assert run.stderr.endswith("end\n")


def test_warnings_of_images_are_not_printed_after_jax_was_imported():
  run = _run(
    "import io, os, jax; from PIL import Image, ImageCms\n"
    "profile = ImageCms.ImageCmsProfile(ImageCms.createProfile('sRGB'))\n"
    "file = io.BytesIO()\n"
    "Image.new('L', (1, 1)).save(\n"
    "  file, 'png', icc_profile=profile.tobytes())\n"
    "from vit_jax.data.tf_import import tf\n"
    "tf.io.decode_png(file.getvalue())"
  )
  assert run.stderr == ""
