"""Choice of a run's attention implementation by its device."""

from typing import Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import attention_key
from vit_jax.models import build as models_build
from vit_jax.objectives import build as objectives_build

# Compute capability of Ampere, the first for which cuDNN has its kernel.
_LEAST_CAPABILITY = 8.0


def settled(config: schema.Config, device: Any) -> schema.Config:
  """Returns the config with 'auto' in `model.attention` resolved.

  'auto' becomes 'cudnn' on NVIDIA GPUs if the config supports it, else 'xla'.

  Args:
    config: The experiment.
    device: A jax device to compile for; it need not be present.

  Raises:
    UserError: The config asks for cuDNN, but the device does not have it.
  """
  attention = attention_key.value(config.model)
  if attention == "auto":
    chosen = attention_key.changed(config, "cudnn")
    if _has_cudnn(device) and _is_allowed(chosen):
      return chosen
    return attention_key.changed(config, "xla")
  if attention == "cudnn" and not _has_cudnn(device):
    key = attention_key.name(config.model)
    raise UserError(
      f"config.{key} = 'cudnn' needs an NVIDIA GPU, Ampere or later, but the"
      f" device is {device.device_kind}; use config.{key}='xla'. To resume a"
      f" run that began with 'cudnn', set config.allow_change='{key}' too."
    )
  return config


def _has_cudnn(device: Any) -> bool:
  if device.platform != "gpu":
    return False
  # '9.0', or 'gfx90a' on AMD; an absent device does not have it.
  capability = getattr(device, "compute_capability", None)
  if capability is None:
    return device.device_kind.startswith("NVIDIA")
  try:
    return float(capability) >= _LEAST_CAPABILITY
  except ValueError:
    return False


def _is_allowed(config: schema.Config) -> bool:
  """Returns True if network and objective accept the config."""
  try:
    models_build.check(config.model)
    objectives_build.kind_of(config).check(config)
  except UserError:
    return False
  return True
