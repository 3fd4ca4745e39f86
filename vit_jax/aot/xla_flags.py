"""Options of the compiler that were seen to help, by kind of device.

Options that help nowhere are listed with their figures in
docs/notes/performance.md.
"""

import dataclasses

from vit_jax.sharding import topologies


@dataclasses.dataclass(frozen=True)
class Flag:
  """An option.

  Attributes:
    value: Value that the option is set to.
    reason: Reason why it helps.
    figure: Measured or estimated gain.
  """

  value: str
  reason: str
  figure: str


def _no_windowed_einsum(figure: str) -> dict[str, Flag]:
  return {
    "xla_jf_spmd_threshold_for_windowed_einsum_mib": Flag(
      "1000000",
      "Where fsdp is the mesh's only axis, each product becomes a loop that"
      " passes activations around the chips; kernels are smaller to gather.",
      f"cycles of B/16, all parameters split over 16 chips: {figure}",
    )
  }


# A key of `topologies.ACCELERATORS` -> option -> setting.
FLAGS: dict[str, dict[str, Flag]] = {
  "tpu v4": _no_windowed_einsum("176.1 to 47.9 M, 32 images a chip"),
  "tpu v5e": _no_windowed_einsum("87.1 to 21.9 M, 8 images a chip"),
  "tpu v5p": _no_windowed_einsum("67.1 to 14.5 M, 8 images a chip"),
  "tpu v6e": _no_windowed_einsum("39.8 to 11.3 M, 8 images a chip"),
}


def options(device_kind: str) -> dict[str, str]:
  """`compiler_options` for devices that jax calls `device_kind`."""
  accelerator = topologies.find_accelerator(device_kind)
  for name, flags in FLAGS.items():
    if accelerator == topologies.ACCELERATORS[name]:
      return {option: flag.value for option, flag in flags.items()}
  return {}
