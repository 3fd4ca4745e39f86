"""Versions of the software that a run's numbers depend on."""

import functools
import os
import pathlib
import platform
import subprocess
from importlib import metadata

import vit_jax

_PACKAGES = (
  "jax",
  "jaxlib",
  "libtpu",
  "flax",
  "optax",
  "orbax-checkpoint",
  "tensorflow",
  "tensorflow-cpu",
  "tensorflow-datasets",
  "numpy",
)


def installed() -> dict[str, str]:
  """Returns {'vit_jax': '0.1.0', 'jax': ...}; skips absent packages."""
  versions = {
    "vit_jax": vit_jax.__version__,
    "python": platform.python_version(),
  }
  for name in _PACKAGES:
    try:
      versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
      continue
  return versions


@functools.cache
def commit() -> str:
  """Returns the commit of this checkout, with '+' if modified; "" if none.

  Files that a launcher has copied from a commit are not a checkout; their
  commit is in VIT_JAX_COMMIT.
  """
  root = pathlib.Path(__file__).parents[1]
  if not (root / ".git").exists():
    return os.environ.get("VIT_JAX_COMMIT", "")
  git = ("git", "-C", str(root), "describe", "--always", "--dirty=+")
  try:
    found = subprocess.run(git, capture_output=True, text=True, timeout=5)
  except (OSError, subprocess.TimeoutExpired):
    return ""
  return found.stdout.strip() if found.returncode == 0 else ""
