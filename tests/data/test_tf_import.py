import subprocess
import sys

import pytest


def _run(code):
  command = [sys.executable, "-c", code]
  return subprocess.run(command, capture_output=True, text=True, check=True)


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
