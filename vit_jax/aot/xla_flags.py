"""Options of the compiler that were seen to help, by kind of device.

Options that help nowhere are listed with their figures in
docs/notes/performance.md.
"""

from vit_jax.config import schema
from vit_jax.sharding import topologies

# Where fsdp is the mesh's only axis, each product becomes a loop that passes
# activations around the chips; kernels are smaller to gather.
_NO_WINDOWED_EINSUM = {
  "xla_jf_spmd_threshold_for_windowed_einsum_mib": "1000000"
}

# A key of `topologies.ACCELERATORS` -> option -> value. The comments give what
# B/16 took before and after: on TPUs cycles, parameters split over 16 chips.
OPTIONS: dict[str, dict[str, str | bool]] = {
  # Biases are added inside of cuBLAS's products, where XLA would otherwise try
  # kernels of its own first and add them apart. Measured with jax 0.11.2.
  "h100": {"xla_gpu_enable_triton_gemm": False},  # 71.3 to 70.4 ms, 256 images.
  "tpu v4": _NO_WINDOWED_EINSUM,  # 176.1 to 47.9 M, 32 images a chip.
  "tpu v5e": _NO_WINDOWED_EINSUM,  # 87.1 to 21.9 M, 8 images a chip.
  "tpu v5p": _NO_WINDOWED_EINSUM,  # 67.1 to 14.5 M, 8 images a chip.
  "tpu v6e": _NO_WINDOWED_EINSUM,  # 39.8 to 11.3 M, 8 images a chip.
}


# Parameters are gathered once a step, where TPUs would gather them anew in the
# backward pass if the two are further apart, by default, than a layer or so.
# What is gathered takes memory, so those who share parameters to save it go
# without. Two layers of L/16, 16 images a chip of v5e: 7.7 to 7.4 M cycles, and
# 98.7 MB gathered in place of 130.2 MB, shared by 16.
GATHER_ONCE = {"xla_tpu_spmd_threshold_for_allgather_cse": "1000000"}


def options(device_kind: str, mesh: schema.Mesh) -> dict[str, str | bool]:
  """`compiler_options` of a step.

  Args:
    device_kind: What jax calls the devices.
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
