"""Runs a command of the package with gs:// on the stand-in storage.

python -m tests.buckets.run URL vit_jax.train --workdir=gs://... ...
"""

import runpy
import sys

import fsspec

from tests.buckets import filesystem


def install(url: str) -> None:
  """From here on, gs:// of this process is the storage at `url`."""
  filesystem.StandIn.url = url
  fsspec.register_implementation("gcs", filesystem.StandIn, clobber=True)
  storage = filesystem.cloud_storage()
  sys.modules.setdefault("google.cloud", storage).storage = storage
  sys.modules["google.cloud.storage"] = storage


if __name__ == "__main__":
  install(sys.argv[1])
  sys.argv = sys.argv[2:]
  runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
