"""Options of the compiler that were seen to help, by kind of device.

One that helps nobody stands in docs/performance.md with its figure, not here.
"""

import dataclasses

from vit_jax.sharding import topologies


@dataclasses.dataclass(frozen=True)
class Flag:
  """An option.

  Attributes:
    value: that it is set to.
    reason: why it helps.
    figure: by how much it was seen to.
  """

  value: str
  reason: str
  figure: str


# A key of `topologies.ACCELERATORS` -> option -> setting.
FLAGS: dict[str, dict[str, Flag]] = {}


def options(device_kind: str) -> dict[str, str]:
  """`compiler_options` for devices that jax calls `device_kind`."""
  accelerator = topologies.find_accelerator(device_kind)
  for name, flags in FLAGS.items():
    if accelerator == topologies.ACCELERATORS[name]:
      return {option: flag.value for option, flag in flags.items()}
  return {}
