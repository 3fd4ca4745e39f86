"""TPUs by name, such as 'v5e:16x16', as devices to compile for.

Needs libtpu, the TPU's compiler, but no TPU. Names of GPUs are passed to
`gpus`.
"""

import dataclasses
import importlib.util
import math
import os
import re

from vit_jax.aot import gpus, quiet
from vit_jax.aot.gpus import Hosts
from vit_jax.errors import UserError
from vit_jax.sharding.topologies import Accelerator, find_accelerator

# Number of dimensions of a slice's grid of chips, and an example.
GENERATIONS = {
  "v2": (2, "v2:4x4"),
  "v3": (2, "v3:16x16"),
  "v4": (3, "v4:4x4x4"),
  "v5e": (2, "v5e:16x16"),
  "v5p": (3, "v5p:4x4x4"),
  "v6e": (2, "v6e:16x16"),
}
# libtpu ends the process if it compiles for a longer side.
_LONGEST_SIDE = {"v5e": 16}
# Chips per host; smaller grids are parts of one.
_HOST = {2: (2, 2), 3: (2, 2, 1)}
_NAME = re.compile(r"(?:(\d+)\*)?(v\w+):(\d+(?:x\d+)*)", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Topology:
  """Identical slices of TPUs.

  Attributes:
    generation: Name of a generation in `GENERATIONS`.
    grid: Chips of a slice along each dimension.
    num_slices: Number of slices, connected only by their hosts' network.
  """

  generation: str
  grid: tuple[int, ...]
  num_slices: int = 1

  def __str__(self) -> str:
    slices = f"{self.num_slices}*" if self.num_slices > 1 else ""
    return f"{slices}{self.generation}:{'x'.join(map(str, self.grid))}"

  @property
  def num_chips(self) -> int:
    return self.num_slices * math.prod(self.grid)

  @property
  def device_kind(self) -> str:
    return f"tpu {self.generation}"

  @property
  def accelerator(self) -> Accelerator:
    found = find_accelerator(self.device_kind)
    if found is None:
      raise ValueError(f"No datasheet of a TPU {self.generation}.")
    return found

  @property
  def num_devices(self) -> int:
    return self.num_chips * self.accelerator.devices_per_chip


def parse(name: str, num_slices: int | None = None) -> Topology | Hosts:
  """Parses a name: 'v5e:16x16', '2*v5e:16x16' for two slices, or 'h100:8'.

  `num_slices` is their number if the name does not give it.

  Raises:
    UserError: There is no such TPU or GPU.
  """
  if hosts := gpus.parse(name):
    if num_slices is not None:
      raise UserError(
        f"--num_slices is for TPUs; several hosts of GPUs are written"
        f" HOSTSxGPUS, as {hosts.name}:{num_slices}x{hosts.gpus_per_host}."
      )
    return hosts
  examples = ", ".join(example for _, example in GENERATIONS.values())
  found = _NAME.fullmatch(name)
  if not found:
    raise UserError(
      f'"{name}" is not a topology; write GENERATION:CHIPSxCHIPS, such as'
      f" {examples}, or 2*v5e:16x16 for two slices; GPUs"
      f" ({', '.join(gpus.GPUS)}) are written h100:8, or h100:4x8 for four"
      " hosts of eight."
    )
  generation, grid = found[2], tuple(map(int, found[3].split("x")))
  if generation not in GENERATIONS:
    raise UserError(
      f'"{generation}" in --topology={name} is not a known device; there are'
      f" TPUs {', '.join(GENERATIONS)} and GPUs {', '.join(gpus.GPUS)}."
    )
  rank, example = GENERATIONS[generation]
  if len(grid) != rank or not all(grid):
    raise UserError(
      f"A TPU {generation} is a grid of {rank} dimensions, such as {example};"
      f" {name} is not."
    )
  longest = _LONGEST_SIDE.get(generation, max(grid))
  if max(grid) > longest:
    raise UserError(
      f"A slice of TPU {generation} has at most {longest} chips along a side,"
      f" {name} has more; two slices are written 2*{example}."
    )
  host = _HOST[rank]
  is_of_hosts = all(
    size % side == 0 for size, side in zip(grid, host, strict=True)
  )
  if math.prod(grid) > math.prod(host) and not is_of_hosts:
    raise UserError(
      f"{name} is not made of whole hosts of {'x'.join(map(str, host))} chips;"
      " make the sides even."
    )
  named = int(found[1]) if found[1] else None
  if named is not None and num_slices is not None and named != num_slices:
    raise UserError(
      f"--topology={name} names {named} slices but"
      f" --num_slices={num_slices}; give one of them."
    )
  if named == 0:
    raise UserError(f"--topology={name} must be of at least one slice.")
  return Topology(generation, grid, named or num_slices or 1)


def prepare_environment(topology: Topology | Hosts | None = None) -> None:
  """Prepares for compiling without the devices; call before importing jax.

  Args:
    topology: Topology to compile for; None for TPUs.

  Raises:
    UserError: The compiler is not installed.
  """
  if isinstance(topology, Hosts):
    gpus.prepare_environment()
    return
  if importlib.util.find_spec("libtpu") is None:
    raise UserError(
      "Compiling for TPUs needs their compiler, libtpu, which is not installed:"
      " pip install 'libtpu==0.0.51'. No TPU is needed."
    )
  os.environ["JAX_PLATFORMS"] = "cpu"
  # There is no TPU to query for its type.
  os.environ["TPU_SKIP_MDS_QUERY"] = "1"
  os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"
  os.environ.setdefault("TPU_STDERR_LOG_LEVEL", "3")
  os.environ.setdefault("TPU_MIN_LOG_LEVEL", "3")


def devices(topology: Topology | Hosts) -> list:
  """Returns the devices of a topology, for compiling only.

  Raises:
    UserError: The compiler does not know the topology.
  """
  if isinstance(topology, Hosts):
    with quiet.stderr():
      return gpus.devices(topology)
  import jax
  from jax.experimental import topologies

  options = {}
  if topology.generation == "v4":
    # As on real pods: jax then sees a chip instead of its two cores.
    options["chip_config_name"] = "megacore"
  host = _HOST[len(topology.grid)]
  if math.prod(topology.grid) < math.prod(host):
    bounds = (*topology.grid, 1, 1)[:3]
    options["chips_per_host_bounds"] = bounds
  if topology.num_slices > 1:
    options["num_slices"] = topology.num_slices
  one_slice = dataclasses.replace(topology, num_slices=1)
  with quiet.stderr():
    try:
      description = topologies.get_topology_desc(
        platform="tpu", topology_name=str(one_slice), **options
      )
    except (jax.errors.JaxRuntimeError, RuntimeError) as error:
      raise UserError(
        f"libtpu does not know {topology}: {str(error).splitlines()[0]}"
      ) from None
  return list(description.devices)
