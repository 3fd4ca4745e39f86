"""TensorFlow, imported on first use, quietly and without any GPU.

`from vit_jax.data.tf_import import tf` costs nothing; the first access to an
attribute imports TensorFlow (2 to 3 seconds).
"""

import functools
import os
import re
import sys
import tempfile
import threading
from typing import Any

# Lines that TensorFlow writes to stderr on import at any log level.
_NOISE = re.compile(
  "|".join(
    (
      r"WARNING: All log messages before absl::InitializeLog\(\)",
      r"oneDNN custom operations are on",
      r"This TensorFlow binary is optimized to use available CPU",
      r"To enable the following instructions:",
      r"Could not find cuda drivers on your machine",
      r"Unable to register cu(FFT|DNN|BLAS) factory",
      r"computation placer already registered",
      r"TF-TRT Warning",
      r"failed call to cuInit",
      r"cuda_diagnostics\.cc",
      r"^\s*$",
    )
  )
)

# jax sets it for itself on import, which usually comes first.
_JAX_LOG_LEVEL = "1"
_LOCK = threading.RLock()


@functools.cache
def _load() -> Any:
  """Imports TensorFlow and hides the accelerators from it.

  TensorFlow writes from C++, so file descriptor 2 is redirected; lines that are
  not known noise are written after the import.
  """
  # Warnings and errors concern damaged images, whose files our own messages
  # name. All other failures raise an exception.
  if os.environ.get("TF_CPP_MIN_LOG_LEVEL", _JAX_LOG_LEVEL) == _JAX_LOG_LEVEL:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
  # Gives the same numbers on every machine, without warnings on some.
  os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
  # TensorFlow looks for the older Keras and works without it; the newer one,
  # with scikit-learn and SciPy, would take another second.
  keras = os.environ.get("TF_USE_LEGACY_KERAS")
  os.environ["TF_USE_LEGACY_KERAS"] = "1"
  sys.stderr.flush()
  stderr = os.dup(2)
  with tempfile.TemporaryFile() as held:
    os.dup2(held.fileno(), 2)
    try:
      import tensorflow

      tensorflow.config.set_visible_devices([], "GPU")
    finally:
      if keras is None:
        del os.environ["TF_USE_LEGACY_KERAS"]
      else:
        os.environ["TF_USE_LEGACY_KERAS"] = keras
      os.dup2(stderr, 2)
      os.close(stderr)
      held.seek(0)
      lines = held.read().decode(errors="replace").splitlines()
      for line in lines:
        if not _NOISE.search(line):
          print(line, file=sys.stderr)
  return tensorflow


class _LazyTensorFlow:
  """A proxy for the module `tensorflow` until it is needed."""

  def __getattr__(self, name: str) -> Any:
    with _LOCK:  # Two threads redirecting fd 2 at once would lose it.
      module = _load()
    return getattr(module, name)


tf: Any = _LazyTensorFlow()
