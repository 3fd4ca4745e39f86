"""NVIDIA GPUs by name, such as 'h100:8', as devices to compile for.

Needs jax's CUDA plugin, NVIDIA's compiler and, for cuDNN's attention, cuDNN,
but neither a GPU nor a driver.
"""

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import os
import re

from vit_jax.aot import quiet
from vit_jax.errors import UserError
from vit_jax.sharding.topologies import Accelerator, find_accelerator

_NAME = re.compile(r"([a-z]\w*):(\d+)(?:x(\d+))?", re.ASCII)
_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")
# There is no GPU to autotune matrix products on. cuBLAS's are used, as is
# mostly the case on a GPU, because XLA's own sometimes have a size that cannot
# run.
OPTIONS: dict[str, str | bool] = {
  "xla_gpu_autotune_level": "0",
  "xla_gpu_enable_triton_gemm": False,
}


@dataclasses.dataclass(frozen=True)
class Gpu:
  """A GPU, as described to XLA's compiler (openxla/xla, target_config).

  L4 and RTX 4090, for which XLA has no file, are described according to
  NVIDIA's datasheets and the limits of compute capability 8.9 in the CUDA C++
  Programming Guide.

  Attributes:
    kind: Name in jax.
    capability: Compute capability.
    cores: Number of streaming multiprocessors.
    units: Number of float32 units per multiprocessor.
    clock: Cycles/s in 10^9.
    memory: Bytes of memory.
    bandwidth: Bytes/s to and from the memory.
    cache: Bytes of the second-level cache.
    threads: Threads per multiprocessor.
    shared: Bytes of shared memory per multiprocessor, and maximum per block.
  """

  kind: str
  capability: tuple[int, int]
  cores: int
  units: int
  clock: float
  memory: int
  bandwidth: int
  cache: int
  threads: int
  shared: tuple[int, int]

  def description(self) -> str:
    """Returns the text of XLA's `GpuTargetConfigProto`."""
    major, minor = self.capability
    return f"""
platform_name: "CUDA"
device_description_str: "{self.kind}"
dnn_version_info {{ major: 9 minor: 10 }}
runtime_version {{ major: 12 minor: 9 }}
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  core_count: {self.cores}
  fpus_per_core: {self.units}
  clock_rate_ghz: {self.clock}
  device_memory_size: {self.memory}
  memory_bandwidth: {self.bandwidth}
  l2_cache_size: {self.cache}
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: {self.threads}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_core: {self.shared[0]}
  shared_memory_per_block_optin: {self.shared[1]}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}}
"""


_HOPPER = Gpu(
  "NVIDIA H100 80GB HBM3",
  capability=(9, 0),
  cores=132,
  units=128,
  clock=1.98,
  memory=84_942_979_072,
  bandwidth=3_352_320_000_000,
  cache=52_428_800,
  threads=2048,
  shared=(233_472, 232_448),
)
_ADA = Gpu(
  "NVIDIA L4",
  capability=(8, 9),
  cores=58,
  units=128,
  clock=2.04,
  memory=24 * 2**30,
  bandwidth=300_000_000_000,
  cache=50_331_648,
  threads=1536,
  shared=(102_400, 101_376),
)
GPUS = {
  "a100": Gpu(
    "NVIDIA A100-SXM4-80GB",
    capability=(8, 0),
    cores=108,
    units=64,
    clock=1.41,
    memory=85_100_068_864,
    bandwidth=2_039_040_000_000,
    cache=41_943_040,
    threads=2048,
    shared=(167_936, 166_912),
  ),
  "h100": _HOPPER,
  "h200": dataclasses.replace(
    _HOPPER,
    kind="NVIDIA H200",
    memory=151_397_597_184,
    bandwidth=4_800_000_000_000,
  ),
  "b200": dataclasses.replace(
    _HOPPER,
    kind="NVIDIA B200",
    capability=(10, 0),
    cores=148,
    clock=1.965,
    memory=191_514_411_008,
    bandwidth=7_672_320_000_000,
    cache=132_644_864,
  ),
  "l4": _ADA,
  "rtx4090": dataclasses.replace(
    _ADA,
    kind="NVIDIA GeForce RTX 4090",
    cores=128,
    clock=2.52,
    bandwidth=1_008_000_000_000,
    cache=75_497_472,
  ),
}


@dataclasses.dataclass(frozen=True)
class Hosts:
  """Identical hosts of GPUs.

  Attributes:
    name: Key of `GPUS`.
    num_hosts: Number of hosts.
    gpus_per_host: Number of GPUs per host.
  """

  name: str
  num_hosts: int
  gpus_per_host: int

  def __str__(self) -> str:
    hosts = f"{self.num_hosts}x" if self.num_hosts > 1 else ""
    return f"{self.name}:{hosts}{self.gpus_per_host}"

  @property
  def num_chips(self) -> int:
    return self.num_hosts * self.gpus_per_host

  @property
  def num_devices(self) -> int:
    return self.num_chips

  @property
  def device_kind(self) -> str:
    return GPUS[self.name].kind

  @property
  def memory(self) -> int:
    """Returns the bytes of memory of a GPU."""
    return GPUS[self.name].memory

  @property
  def accelerator(self) -> Accelerator:
    found = find_accelerator(self.device_kind)
    if found is None:
      raise ValueError(f"No datasheet of a {self.device_kind}.")
    return found


def parse(name: str) -> Hosts | None:
  """Parses 'h100:8' or 'h100:4x8' (hosts x GPUs); None if it is not a GPU.

  Raises:
    UserError: There are no hosts or no GPUs.
  """
  found = _NAME.fullmatch(name)
  if not found or found[1] not in GPUS:
    return None
  first, second = int(found[2]), found[3]
  hosts, gpus = (1, first) if second is None else (first, int(second))
  if not hosts or not gpus:
    raise UserError(f"--topology={name} must be of at least one GPU.")
  return Hosts(found[1], hosts, gpus)


def prepare_environment() -> None:
  """Prepares for compiling without a GPU; call before importing jax.

  Raises:
    UserError: The CUDA plugin of jax or NVIDIA's compiler is not installed.
  """
  plugin = any(map(importlib.util.find_spec, _PLUGINS))
  if not plugin or not _has_nvidia("cuda_nvcc"):
    version = importlib.metadata.version("jax")
    raise UserError(
      "Compiling for GPUs needs jax's CUDA plugin and NVIDIA's compiler, which"
      f" are not installed: pip install jax-cuda12-plugin=={version}"
      f" jax-cuda12-pjrt=={version} nvidia-cuda-nvcc-cu12"
      " nvidia-cudnn-cu12. No GPU and no driver are needed."
    )
  os.environ["JAX_PLATFORMS"] = "cpu"
  os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
  os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
  with quiet.stderr():  # The plugin warns about the missing driver.
    importlib.import_module("jax")


def check_cudnn(attention: str | None) -> None:
  """Raises UserError if a step needs cuDNN and it is not installed."""
  if attention == "cudnn" and not _has_nvidia("cudnn"):
    raise UserError(
      "config.model.attention = 'cudnn' compiles with cuDNN's libraries, which"
      " are not installed: pip install nvidia-cudnn-cu12, or take"
      " --config.model.attention=xla."
    )


def devices(hosts: Hosts) -> list:
  """Returns the GPUs of a topology, for compiling only."""
  from jax.experimental import topologies

  description = topologies.get_topology_desc(
    platform="cuda",
    target_config=GPUS[hosts.name].description(),
    topology=f"1x{hosts.num_hosts}x{hosts.gpus_per_host}",
  )
  return list(description.devices)


def _has_nvidia(package: str) -> bool:
  try:
    return importlib.util.find_spec(f"nvidia.{package}") is not None
  except ModuleNotFoundError:
    return False
