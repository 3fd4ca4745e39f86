"""Exchanges between devices in a compiled program, and their duration."""

import dataclasses
import math
import re

from vit_jax.aot.hlo_text import Computation, Instruction
from vit_jax.sharding.topologies import Accelerator

KINDS = (
  "all-reduce",
  "all-gather",
  "reduce-scatter",
  "all-to-all",
  "collective-permute",
)
# Sums over slices leave a slice through its hosts.
BETWEEN_SLICES = "between-slices"


@dataclasses.dataclass(frozen=True)
class Collective:
  """One exchange.

  Attributes:
    kind: One of `KINDS`, or `BETWEEN_SLICES`.
    num_bytes: Bytes of the whole array on a device: the array that is reduced,
      scattered or sent, or the result of a gather.
    group: Number of devices that take part together.
    channel: Channel shared by the parts of one exchange; None if it has no
      parts.
  """

  kind: str
  num_bytes: int
  group: int
  channel: str | None = None

  def seconds(self, accelerator: Accelerator) -> float | None:
    """The shortest time, all links of all chips busy; None if not known.

    A ring over the n chips of the group, where a chip sends (n - 1) / n of the
    array's bytes, twice if it is reduced and then gathered. Half of the
    interconnect's bytes a second leave the chip. Devices of one chip meet in
    its memory.
    """
    if self.kind == BETWEEN_SLICES or not accelerator.interconnect:
      return None
    chips = math.ceil(self.group / accelerator.devices_per_chip)
    rounds = 2 if self.kind == "all-reduce" else 1
    share = (chips - 1) / chips
    if self.kind == "collective-permute":
      share = 1 if chips > 1 else 0
    return rounds * share * self.num_bytes / (accelerator.interconnect / 2)


def find(
  computation: Computation, instruction: Instruction, num_devices: int
) -> Collective | None:
  """The exchange that an instruction is or begins; None if it is none.

  Args:
    computation: Computation that contains the instruction.
    instruction: Any instruction.
    num_devices: Size of the group where the program names none.
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
    # The result of a start holds what went in beside what will come out.
    begins = instruction.opcode.endswith("-start")
    num_bytes = instruction.num_bytes - (taken if begins else 0)
  if kind == "all-reduce":
    # What is sent has the result's type, whatever type goes in.
    num_bytes = instruction.num_bytes
  if kind == "all-reduce" and _keeps_a_part(computation, instruction):
    kind = "reduce-scatter"
  channel = re.search(r"channel_id=(\d+)", instruction.attributes)
  return Collective(
    kind,
    num_bytes,
    _group_size(instruction.attributes) or num_devices,
    channel[1] if channel else None,
  )


def _keeps_a_part(computation: Computation, instruction: Instruction) -> bool:
  """Recognises a fusion that takes its part of a sum: a reduce-scatter.

  Several sums in one are a tuple, and so are their parts.
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
  """An array, and the tuple that it is an element of."""
  source = computation[name]
  if source.opcode == "get-tuple-element":
    return name, source.operands[0]
  return (name,)


def _group_size(attributes: str) -> int | None:
  """Devices of a group; None: all."""
  listed = re.search(r"replica_groups=\{\{([\d,]+)\}", attributes)
  if listed:
    return listed[1].count(",") + 1
  iota = re.search(r"replica_groups=\[\d+,(\d+)\]", attributes)
  if iota:
    return int(iota[1])
  mesh = re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", attributes)
  if mesh:
    sizes = dict(re.findall(r"'([^']+)'=(\d+)", mesh[1]))
    # An axis, or a part of it as in 'axis_0':(2)4.
    axes = re.findall(r"'([^']+)'(?::\(\d+\)(\d+))?", mesh[2])
    return math.prod(int(part or sizes[axis]) for axis, part in axes)
  return None
