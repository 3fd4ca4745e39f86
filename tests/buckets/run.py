"""Runs a command of the package with gs:// on the stand-in storage.

python -m tests.buckets.run URL vit_jax.train --workdir=gs://... ...
"""

import os
import runpy
import sys

import fsspec

from tests.buckets import filesystem


def install(url: str) -> None:
  """From here on, gs:// of this process is the storage at `url`.

  etils reaches it through fsspec, and TensorStore, which writes the arrays of
  checkpoints, through its own client.
  """
  filesystem.StandIn.url = url
  fsspec.register_implementation("gcs", filesystem.StandIn, clobber=True)
  storage = filesystem.cloud_storage()
  sys.modules["google.cloud.storage"] = storage
  sys.modules.setdefault("google.cloud", storage).storage = storage
  os.environ["TENSORSTORE_GCS_HTTP_URL"] = url
  os.environ["GOOGLE_AUTH_TOKEN_FOR_TESTING"] = "none"


def command(url: str, module: str, *arguments: str) -> list[str]:
  """A command of the package as a process of its own."""
  runner = [sys.executable, "-m", "tests.buckets.run"]
  return [*runner, url, module, *arguments]


if __name__ == "__main__":
  install(sys.argv[1])
  sys.argv = sys.argv[2:]
  runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
