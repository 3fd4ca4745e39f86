"""Keeps jax from looking for TPUs on a machine without any.

If libtpu is installed, as required by `vit_jax.compile`, jax first tries to
initialise a TPU, which takes seconds and prints errors if there is none. The
platform must be chosen before jax is imported.
"""

import glob
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping, MutableMapping

# A TPU, or another device that a plugin may support.
_DEVICES = ("accel*", "vfio/[0-9]*", "nvidia*", "kfd", "dxg")


def choose_platform(
  environment: MutableMapping[str, str] = os.environ, devices: str = "/dev"
) -> None:
  """Sets JAX_PLATFORMS=cpu if libtpu is installed without an accelerator.

  Does nothing if the environment says anything about TPUs or platforms, or if
  there is an accelerator or a jax plugin other than CUDA's.

  Args:
    environment: Environment variables.
    devices: Folder of device files.
  """
  if _says_something(environment) or not importlib.util.find_spec("libtpu"):
    return
  if has_accelerator(devices):
    return
  plugins = importlib.metadata.entry_points(group="jax_plugins")
  if all(plugin.name.startswith("xla_cuda") for plugin in plugins):
    environment["JAX_PLATFORMS"] = "cpu"


def has_accelerator(devices: str = "/dev") -> bool:
  """Returns True if there is a device file of a TPU, a GPU or the like.

  Args:
    devices: Folder of device files.
  """
  return any(glob.glob(f"{devices}/{pattern}") for pattern in _DEVICES)


def _says_something(environment: Mapping[str, str]) -> bool:
  return any(
    name in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_FORCE_TPU_INIT")
    or name.startswith("TPU_")
    for name in environment
  )
