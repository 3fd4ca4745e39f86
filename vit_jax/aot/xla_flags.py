"""Compiler options that were found to help, by kind of device.

Options that do not help are listed with their figures in
docs/notes/performance.md.
"""

from vit_jax.config import schema
from vit_jax.sharding import topologies

# If fsdp is the mesh's only axis, each product becomes a loop that passes
# activations around the chips; gathering kernels moves less data.
_NO_WINDOWED_EINSUM = {
  "xla_jf_spmd_threshold_for_windowed_einsum_mib": "1000000"
}

# Key of `topologies.ACCELERATORS` -> option -> value. The comments give the
# cost of B/16 before and after; on TPUs in cycles, with parameters split over
# 16 chips.
OPTIONS: dict[str, dict[str, str | bool]] = {
  # Biases are added inside cuBLAS's products; otherwise XLA would try its own
  # kernels first and add them separately. Measured with jax 0.11.2.
  "h100": {"xla_gpu_enable_triton_gemm": False},  # 71.3 to 70.4 ms, 256 images.
  "tpu v4": _NO_WINDOWED_EINSUM,  # 176.1 to 47.9 M, 32 images a chip.
  "tpu v5e": _NO_WINDOWED_EINSUM,  # 87.1 to 21.9 M, 8 images a chip.
  "tpu v5p": _NO_WINDOWED_EINSUM,  # 67.1 to 14.5 M, 8 images a chip.
  "tpu v6e": _NO_WINDOWED_EINSUM,  # 39.8 to 11.3 M, 8 images a chip.
}


# Parameters are gathered once per step; by default, TPUs would gather them
# again in the backward pass if the two uses are more than about a layer apart.
# Gathered parameters take memory, so this is not used when parameters are
# shared to save it. Two layers of L/16, 16 images per chip of v5e: 7.7 to 7.4 M
# cycles, and 98.7 MB gathered instead of 130.2 MB, shared by 16.
GATHER_ONCE = {"xla_tpu_spmd_threshold_for_allgather_cse": "1000000"}


def options(device_kind: str, mesh: schema.Mesh) -> dict[str, str | bool]:
  """Returns the `compiler_options` of a step.

  Args:
    device_kind: Name of the devices in jax.
    mesh: The config's section.
  """
  accelerator = topologies.find_accelerator(device_kind)
  found = {}
  for name, values in OPTIONS.items():
    if accelerator == topologies.ACCELERATORS[name]:
      found |= values
  if mesh.fsdp == "auto" and "tpu" in device_kind.lower():
    found |= GATHER_ONCE
  return found
