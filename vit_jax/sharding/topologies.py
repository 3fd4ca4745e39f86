"""Known accelerators: peak rates and memory of one chip."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Accelerator:
  """Datasheet figures of one chip.

  Attributes:
    flops: Dense bfloat16 peak (float16 if there is no bfloat16), FLOP/s.
    hbm_bytes: Bytes of memory.
    hbm_bandwidth: Memory bandwidth, bytes/s.
    interconnect: Bytes/s to and from all other chips together, both ways; 0 if
      there is no interconnect. That of PCIe for GPUs without NVLink.
    network: Bytes/s to and from other hosts, both ways, if not over the
      interconnect: one adapter per GPU, as in NVIDIA's DGX.
    clock: Cycles/s of a TPU's core; None for others.
    devices_per_chip: Number of devices that jax sees in a chip.
    matrix_side: Side of a TPU's matrix units, in numbers.
    vector_slots: Operations on registers of 1024 numbers that a device's TPU
      cores start in a cycle: 4 a core, or 2 before v5. They are the slots in
      libtpu's utilisation reports, which
      `LIBTPU_INIT_ARGS='--xla_jf_dump_to=DIR --xla_jf_dump_llo_text=true'`
      writes.
  """

  flops: float
  hbm_bytes: float
  hbm_bandwidth: float
  interconnect: float
  clock: float | None = None
  devices_per_chip: int = 1
  matrix_side: int = 128
  vector_slots: int = 4
  network: float = 0.0

  @property
  def flops_per_device(self) -> float:
    return self.flops / self.devices_per_chip


# Keys are parts of jax's `device_kind`, in lower case; the longest match is
# used.
ACCELERATORS = {
  "tpu v2": Accelerator(
    45e12, 16e9, 700e9, 496e9, 0.70e9, devices_per_chip=2, vector_slots=2
  ),
  "tpu v3": Accelerator(
    123e12, 32e9, 900e9, 560e9, 0.94e9, devices_per_chip=2, vector_slots=2
  ),
  "tpu v4": Accelerator(275e12, 32e9, 1228e9, 600e9, 1.05e9),
  "tpu v5 lite": Accelerator(197e12, 16e9, 819e9, 400e9, 1.50e9),
  "tpu v5e": Accelerator(197e12, 16e9, 819e9, 400e9, 1.50e9),
  "tpu v5": Accelerator(459e12, 95e9, 2765e9, 1200e9, 1.75e9, vector_slots=8),
  "tpu v5p": Accelerator(459e12, 95e9, 2765e9, 1200e9, 1.75e9, vector_slots=8),
  "tpu v6 lite": Accelerator(
    918e12, 32e9, 1640e9, 800e9, 1.75e9, matrix_side=256
  ),
  "tpu v6e": Accelerator(918e12, 32e9, 1640e9, 800e9, 1.75e9, matrix_side=256),
  "tpu7x": Accelerator(2307e12, 192e9, 7370e9, 1200e9),
  "a100": Accelerator(312e12, 80e9, 2039e9, 600e9, network=50e9),
  "h100": Accelerator(989e12, 80e9, 3350e9, 900e9, network=100e9),
  "h200": Accelerator(989e12, 141e9, 4800e9, 900e9, network=100e9),
  "b200": Accelerator(2250e12, 180e9, 8000e9, 1800e9, network=100e9),
  "l4": Accelerator(121e12, 24e9, 300e9, 64e9),
  "rtx 4090": Accelerator(165e12, 24e9, 1008e9, 64e9),
  "v100": Accelerator(125e12, 32e9, 900e9, 300e9),
  "t4": Accelerator(65e12, 16e9, 320e9, 0.0),
}


def find_accelerator(device_kind: str) -> Accelerator | None:
  """Finds the entry for `device.device_kind`; None for a CPU or if unknown."""
  kind = device_kind.lower()
  matches = [n for n in ACCELERATORS if re.search(rf"\b{n}\b", kind)]
  return ACCELERATORS[max(matches, key=len)] if matches else None
