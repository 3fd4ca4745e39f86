"""Exchanges between devices in a compiled program, and their durations."""

import dataclasses
import math
import re

import numpy as np

from vit_jax.aot.hlo_text import Computation, Instruction
from vit_jax.sharding.topologies import Accelerator

KINDS = (
  "all-reduce",
  "all-gather",
  "reduce-scatter",
  "all-to-all",
  "collective-permute",
)
# Sums over slices leave a slice via its hosts.
BETWEEN_SLICES = "between-slices"


@dataclasses.dataclass(frozen=True)
class Collective:
  """One exchange.

  Attributes:
    kind: One of `KINDS`, or `BETWEEN_SLICES`.
    num_bytes: Bytes of the whole array on a device: the array to reduce,
      scatter or send, or the result of a gather.
    group: Number of participating devices.
    channel: Channel shared by the parts of one exchange; None if it has no
      parts.
    hosts: Number of hosts that the group spans, if a network connects them.
  """

  kind: str
  num_bytes: int
  group: int
  channel: str | None = None
  hosts: int = 1

  def seconds(self, accelerator: Accelerator) -> float | None:
    """Returns the shortest time with all links busy; None if unknown.

    Assumes a ring over the n chips of the group, where a chip sends (n - 1) / n
    of the array's bytes, or twice that if the array is reduced and then
    gathered. Half of the interconnect's bytes per second leave the chip.
    Devices of one chip exchange through its memory. Traffic from host to host
    is divided among the adapters of the host's members.
    """
    if self.kind == BETWEEN_SLICES or not accelerator.interconnect:
      return None
    chips = math.ceil(self.group / accelerator.devices_per_chip)
    rounds = 2 if self.kind == "all-reduce" else 1
    share = (chips - 1) / chips
    if self.kind == "collective-permute":
      share = 1 if chips > 1 else 0
    sent = rounds * share * self.num_bytes
    seconds = sent / (accelerator.interconnect / 2)
    if self.hosts > 1:
      if not accelerator.network:
        return None
      members = self.group / self.hosts
      leaves = sent / members
      if self.kind == "collective-permute":
        leaves = sent
      elif self.kind == "all-to-all":  # Not a ring: each sends its own.
        leaves = self.num_bytes * (1 - 1 / self.hosts)
      seconds = max(seconds, leaves / (accelerator.network / 2))
    return seconds


def find(
  computation: Computation,
  instruction: Instruction,
  num_devices: int,
  devices_per_host: int | None = None,
) -> Collective | None:
  """Finds the exchange that an instruction is or starts; None if neither.

  Args:
    computation: Computation that contains the instruction.
    instruction: Any instruction.
    num_devices: Size of the group if the program names none.
    devices_per_host: Devices per host, in the order of their numbers; None to
      ignore hosts.
  """
  opcode = instruction.opcode.removesuffix("-start")
  taken = sum(s.num_bytes for s in computation.operand_shapes(instruction))
  if instruction.opcode == "send":
    if "_xla_megascale_transfer_type" not in instruction.attributes:
      return None
    return Collective(BETWEEN_SLICES, taken, num_devices)
  if opcode not in KINDS:
    return None
  kind, num_bytes = opcode, taken
  if kind == "all-gather":
    # The result of a start holds its input along with its output.
    begins = instruction.opcode.endswith("-start")
    num_bytes = instruction.num_bytes - (taken if begins else 0)
  if kind == "all-reduce":
    # The data sent has the result's type, regardless of the input's.
    num_bytes = instruction.num_bytes
  if kind == "all-reduce" and _keeps_a_part(computation, instruction):
    kind = "reduce-scatter"
  channel = re.search(r"channel_id=(\d+)", instruction.attributes)
  group = _group(instruction.attributes, num_devices)
  per_host = devices_per_host or num_devices
  hosts = len({member // per_host for member in group})
  if kind == "collective-permute":
    hosts = 2 if _crosses(instruction.attributes, per_host) else 1
  return Collective(
    kind,
    num_bytes,
    len(group),
    channel[1] if channel else None,
    hosts,
  )


def _keeps_a_part(computation: Computation, instruction: Instruction) -> bool:
  """Detects a fusion that takes its part of a sum: a reduce-scatter.

  Several combined sums are a tuple, and so are their parts.
  """
  root = computation[computation.root]
  parts = [root]
  if root.opcode == "tuple":
    parts = [computation[operand] for operand in root.operands]
  return all(
    part.opcode == "dynamic-slice"
    and instruction.name in _sources(computation, part.operands[0])
    for part in parts
  )


def _sources(computation: Computation, name: str) -> tuple[str, ...]:
  """Returns an array's name and that of the tuple it is an element of."""
  source = computation[name]
  if source.opcode == "get-tuple-element":
    return name, source.operands[0]
  return (name,)


def _group(attributes: str, num_devices: int) -> list[int]:
  """Returns the device numbers of a group; all if none is named."""
  listed = re.search(r"replica_groups=\{\{([\d,]+)\}", attributes)
  if listed:
    return [int(device) for device in listed[1].split(",")]
  iota = re.search(
    r"replica_groups=\[\d+,(\d+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?)?",
    attributes,
  )
  if iota:
    sides = [int(side) for side in (iota[2] or iota[1]).split(",")]
    devices = np.arange(math.prod(sides)).reshape(sides)
    if iota[3]:
      devices = devices.transpose([int(axis) for axis in iota[3].split(",")])
    return devices.reshape(-1)[: int(iota[1])].tolist()
  mesh = re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", attributes)
  if mesh:
    return _group_of_axes(mesh[1], mesh[2])
  return list(range(num_devices))


def _group_of_axes(mesh: str, axes: str) -> list[int]:
  """Returns the first group along mesh axes: "'a'=4,'b'=8" and "'b'".

  A sub-axis such as 'b':(2)4 is the part of size 4 after a part of size 2.
  """
  sizes = {name: int(n) for name, n in re.findall(r"'([^']+)'=(\d+)", mesh)}
  strides, stride = {}, 1
  for name in reversed(sizes):
    strides[name] = stride
    stride *= sizes[name]
  members = [0]
  for name, before, part in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", axes):
    size = int(part or sizes[name])
    within = sizes[name] // (int(before) * size) if part else 1
    members = [
      member + i * within * strides[name]
      for member in members
      for i in range(size)
    ]
  return members


def _crosses(attributes: str, devices_per_host: int) -> bool:
  """Tells whether a permutation sends anything to another host."""
  pairs = re.findall(r"\{(\d+),(\d+)\}", attributes)
  return any(
    int(source) // devices_per_host != int(target) // devices_per_host
    for source, target in pairs
  )
