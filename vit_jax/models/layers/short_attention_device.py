"""Checks that devices support the short attention kernel; imports no kernel."""

import re

from vit_jax.errors import UserError
from vit_jax.models.layers import placement


def check() -> None:
  """Checks that the devices compiled for support the kernel.

  Raises:
    UserError: They do not support it.
  """
  if placement.platform() != "tpu":
    raise UserError(
      "config.model.attention = 'pallas' needs a TPU; here is a"
      f" {placement.platform()}. Use config.model.attention='xla'."
    )
  if re.search(r"\bv[23]\b", placement.device_kind()):
    raise UserError(
      "config.model.attention = 'pallas' needs a TPU v4 or later, whose kernels"
      f" multiply bfloat16; here is a {placement.device_kind()}. Use"
      " config.model.attention='xla'."
    )
