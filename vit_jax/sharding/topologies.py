"""Accelerators that are known by name: peak rates and memory of one chip."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Accelerator:
  """Datasheet figures of one chip.

  `flops` is the dense bfloat16 peak (float16 where there is no bfloat16) in
  FLOP/s, `hbm_bytes` the memory, `devices_per_chip` how many devices jax sees
  in a chip.
  """

  flops: float
  hbm_bytes: float
  devices_per_chip: int = 1

  @property
  def flops_per_device(self) -> float:
    return self.flops / self.devices_per_chip


# Keys are words of jax's `device_kind`, lower case; the longest match counts.
ACCELERATORS = {
  "tpu v2": Accelerator(45e12, 16e9, devices_per_chip=2),
  "tpu v3": Accelerator(123e12, 32e9, devices_per_chip=2),
  "tpu v4": Accelerator(275e12, 32e9),
  "tpu v5 lite": Accelerator(197e12, 16e9),
  "tpu v5e": Accelerator(197e12, 16e9),
  "tpu v5": Accelerator(459e12, 95e9),
  "tpu v5p": Accelerator(459e12, 95e9),
  "tpu v6 lite": Accelerator(918e12, 32e9),
  "tpu v6e": Accelerator(918e12, 32e9),
  "tpu7x": Accelerator(2307e12, 192e9),
  "a100": Accelerator(312e12, 80e9),
  "h100": Accelerator(989e12, 80e9),
  "h200": Accelerator(989e12, 141e9),
  "l4": Accelerator(121e12, 24e9),
  "v100": Accelerator(125e12, 32e9),
  "t4": Accelerator(65e12, 16e9),
}


def find_accelerator(device_kind: str) -> Accelerator | None:
  """The entry for jax's `device.device_kind`; None for a CPU or a stranger."""
  kind = device_kind.lower()
  matches = [n for n in ACCELERATORS if re.search(rf"\b{n}\b", kind)]
  return ACCELERATORS[max(matches, key=len)] if matches else None
