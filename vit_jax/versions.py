"""Versions of what a run's numbers depend on."""

import platform
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
  """{'vit_jax': '0.1.0', 'python': '3.11.7', 'jax': ...}; absent left out."""
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
