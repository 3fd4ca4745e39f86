"""Cost of a compiled step, summed over the whole program.

XLA:TPU annotates each fusion with an estimate of its cycles. These estimates do
not include our own kernels, for which `kernels` has bounds. XLA:GPU has no such
estimates, so a GPU's kernels have only bounds: the larger of the times that
memory and matrix units need at their peak. A loop's body counts as often as it
runs, and branches count as the most expensive one.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Hashable, Iterator

from vit_jax.aot import collectives, gpu_kernels, kernels, matrix_flops
from vit_jax.aot.collectives import Collective
from vit_jax.aot.hlo_text import Computation, Instruction, Module
from vit_jax.aot.timeline import Timeline
from vit_jax.sharding.topologies import Accelerator

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_KNOWN_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
# Compiler annotations and memory locations, which take no time.
_FREE_TARGETS = {
  "AllocateBuffer",
  "AssumeGatherIndicesInBound",
  "ConcatBitcast",
  "Sharding",
  "SPMDFullToShardShape",
  "SPMDShardToFullShape",
  "SliceId",
  "annotate_device_placement",
  "xla.sdy.FuncResultSharding",
}


@dataclasses.dataclass
class Cost:
  """One device's share of a program.

  Attributes:
    seconds: Seconds of arithmetic; on a GPU only a bound.
    cycles: The compiler's estimate plus the kernels' bounds, in cycles; 0 on a
      GPU.
    kernel_cycles: The kernels' bounds alone, in cycles.
    kernel_calls: Number of kernel calls, with or without a bound.
    flops: FLOPs of matrix products and convolutions, excluding kernels.
    overlapped_seconds: Seconds of arithmetic and exchanges, overlapping where
      the program's schedule has them overlap.
    collectives: Number of occurrences of each exchange.
    gpu_kernels: Number of GPU kernels of each kind.
    gpu_bytes: Bytes that GPU kernels read and write.
    uncosted: Number of calls per target or kernel without an estimate.
    loops_of_unknown_length: Number of loops that are counted as running once.
  """

  seconds: float = 0.0
  cycles: float = 0.0
  kernel_cycles: float = 0.0
  kernel_calls: int = 0
  flops: int = 0
  overlapped_seconds: float = 0.0
  collectives: collections.Counter[Collective] = dataclasses.field(
    default_factory=collections.Counter
  )
  gpu_kernels: collections.Counter[str] = dataclasses.field(
    default_factory=collections.Counter
  )
  gpu_bytes: collections.Counter[str] = dataclasses.field(
    default_factory=collections.Counter
  )
  uncosted: collections.Counter[str] = dataclasses.field(
    default_factory=collections.Counter
  )
  loops_of_unknown_length: int = 0

  def add(self, other: "Cost", times: int = 1) -> None:
    """Adds a part that runs `times` times."""
    self.seconds += times * other.seconds
    self.cycles += times * other.cycles
    self.kernel_cycles += times * other.kernel_cycles
    self.kernel_calls += times * other.kernel_calls
    self.flops += times * other.flops
    self.overlapped_seconds += times * other.overlapped_seconds
    self.loops_of_unknown_length += other.loops_of_unknown_length
    for mine, more in (
      (self.collectives, other.collectives),
      (self.gpu_kernels, other.gpu_kernels),
      (self.gpu_bytes, other.gpu_bytes),
      (self.uncosted, other.uncosted),
    ):
      for name, count in more.items():
        mine[name] += times * count

  def by_kernel(self) -> dict[str, dict[str, int]]:
    """Returns {'fusions': {'count': 2, 'bytes': 1024}}, most bytes first."""
    return {
      kind: {"count": self.gpu_kernels[kind], "bytes": num_bytes}
      for kind, num_bytes in self.gpu_bytes.most_common()
    }

  def by_kind(self) -> dict[str, dict[str, int]]:
    """Returns {'all-reduce': {'count': 2, 'bytes': 1024}}, sorted by name."""
    kinds: dict[str, dict[str, int]] = {}
    for one, count in self.collectives.items():
      entry = kinds.setdefault(one.kind, {"count": 0, "bytes": 0})
      entry["count"] += count
      entry["bytes"] += count * one.num_bytes
    return dict(sorted(kinds.items()))

  def collective_seconds(self, accelerator: Accelerator) -> float:
    """Returns the time of all known exchanges, one after the other."""
    return math.fsum(
      count * (one.seconds(accelerator) or 0.0)
      for one, count in self.collectives.items()
    )


def cost(
  module: Module,
  *,
  accelerator: Accelerator,
  num_devices: int,
  devices_per_host: int | None = None,
) -> Cost:
  """Computes a program's cost on one of `num_devices` that run it together.

  `devices_per_host` is for hosts connected only by a network.
  """
  reader = _Reader(module, accelerator, num_devices, devices_per_host)
  return reader.cost(module.entry)


def arithmetic(
  module: Module, *, accelerator: Accelerator
) -> Iterator[tuple[Instruction, Cost]]:
  """Yields a program's instructions with their costs, without exchanges.

  The cost of a loop or branch instruction is that of what it runs.
  """
  reader = _Reader(module, accelerator, num_devices=1)
  computation = module[module.entry]
  for instruction in computation:
    yield instruction, reader.arithmetic(computation, instruction)


class _Reader:
  """Walks the computations of a module."""

  def __init__(
    self,
    module: Module,
    accelerator: Accelerator,
    num_devices: int,
    devices_per_host: int | None = None,
  ):
    self._devices_per_host = devices_per_host
    self._module = module
    self._accelerator = accelerator
    self._num_devices = num_devices

  def cost(self, name: str) -> Cost:
    """Sums the cost of a computation reached by control flow."""
    computation, total = self._module[name], Cost()
    exchanges = {
      instruction.name: dict(self._exchanges(computation, instruction))
      for instruction in computation
    }
    ends_with = {key: name for name, one in exchanges.items() for key in one}
    timeline, begun = Timeline(), set()
    for instruction in computation:
      part = self.arithmetic(computation, instruction)
      here = exchanges[instruction.name]
      begins = [key for key in here if key not in begun]
      ends = {key for key in here if ends_with[key] == instruction.name}
      if instruction.opcode.endswith("-start"):
        ends = set()
      begun.update(begins)
      for key in begins:
        part.collectives[dataclasses.replace(here[key], channel=None)] += 1
        timeline.begin(key, here[key].seconds(self._accelerator) or 0.0)
      for key in ends.intersection(begins):
        timeline.wait(key)
      timeline.compute(part.overlapped_seconds or part.seconds)
      for key in ends:
        timeline.wait(key)
      if instruction.opcode.endswith("-done"):
        timeline.wait(instruction.operands[0])
      total.add(part)
    total.overlapped_seconds = timeline.now
    return total

  def arithmetic(
    self, computation: Computation, instruction: Instruction
  ) -> Cost:
    """Returns the cost of an instruction, excluding its own exchanges."""
    part, clock = Cost(), self._accelerator.clock
    if clock is None:
      self._add_gpu_kernel(part, computation, instruction)
      self._add_called(part, instruction)
      return part
    found = _CYCLES.search(instruction.attributes)
    part.cycles += int(found[1]) if found else 0
    if instruction.opcode == "custom-call":
      self._add_custom_call(part, computation, instruction)
    part.seconds = part.cycles / clock
    if instruction.opcode == "fusion":
      part.flops += self._fused_flops(instruction)
    elif instruction.opcode != "custom-call":
      part.flops += matrix_flops.flops(computation, instruction)
      self._add_called(part, instruction)
    return part

  def _add_gpu_kernel(
    self, total: Cost, computation: Computation, instruction: Instruction
  ) -> None:
    found = gpu_kernels.kernel(self._module, computation, instruction)
    if found is None:
      return
    total.gpu_kernels[found.kind] += 1
    total.gpu_bytes[found.kind] += found.num_bytes
    total.flops += found.flops
    total.seconds += max(
      found.num_bytes / self._accelerator.hbm_bandwidth,
      found.flops / self._accelerator.flops_per_device,
    )

  def _exchanges(
    self, computation: Computation, instruction: Instruction
  ) -> Iterator[tuple[Hashable, Collective]]:
    """Yields exchanges that an instruction is, starts or is a part of.

    An exchange that is spread over several fusions, to overlap with their
    arithmetic, is yielded for each of them, with the same key.
    """
    if instruction.opcode != "fusion":
      one = collectives.find(
        computation, instruction, self._num_devices, self._devices_per_host
      )
      if one:
        yield instruction.name, one
      return
    for name in instruction.called("calls"):
      for inner in self._module[name]:
        for _, one in self._exchanges(self._module[name], inner):
          # A sum of which a part is kept is complete; many may share a channel.
          is_spread = one.channel and one.kind != "reduce-scatter"
          yield one if is_spread else (instruction.name, inner.name), one

  def _fused_flops(self, fusion: Instruction) -> int:
    return sum(
      self._fused_flops(inner)
      if inner.opcode == "fusion"
      else matrix_flops.flops(self._module[name], inner)
      for name in fusion.called("calls")
      for inner in self._module[name]
    )

  def _add_called(self, total: Cost, instruction: Instruction) -> None:
    opcode = instruction.opcode
    if opcode == "while":
      (body,) = instruction.called("body")
      trips = self._trips(instruction)
      total.loops_of_unknown_length += trips is None
      total.add(self.cost(body), times=1 if trips is None else trips)
    elif opcode == "conditional":
      branches = instruction.called(
        "branch_computations", "true_computation", "false_computation"
      )
      costs = [self.cost(branch) for branch in branches]
      total.add(max(costs, key=lambda one: (one.seconds, one.flops)))
    elif opcode in ("call", "async-start"):
      for name in instruction.called("calls", "to_apply"):
        total.add(self.cost(name))

  def _add_custom_call(
    self, total: Cost, computation: Computation, instruction: Instruction
  ) -> None:
    if _CYCLES.search(instruction.attributes):
      return
    kernel = kernels.call(computation, instruction)
    if kernel is not None:
      total.kernel_calls += 1
      cycles = kernels.bound(kernel, self._accelerator)
      if cycles is None:
        total.uncosted[kernel.name] += 1
      else:
        total.cycles += cycles
        total.kernel_cycles += cycles
      return
    target = _TARGET.search(instruction.attributes)
    if target and target[1] not in _FREE_TARGETS:
      total.uncosted[target[1]] += 1

  def _trips(self, loop: Instruction) -> int | None:
    """Returns the trip count of a loop from 0 by 1; None if not found."""
    known = _KNOWN_TRIPS.search(loop.attributes)
    if known:
      return int(known[1])
    (name,) = loop.called("condition")
    limits = list(self._limits(name, {}))
    return limits[0] if len(limits) == 1 else None

  def _limits(
    self, name: str, arguments: dict[str, int | None]
  ) -> Iterator[int]:
    """Yields integers that values are compared with in a computation.

    `arguments` has the values of its constant parameters.
    """
    computation = self._module[name]

    def value(operand: str) -> int | None:
      one = computation[operand]
      if one.opcode in ("copy", "bitcast", "convert"):
        return value(one.operands[0])
      if one.opcode == "constant" and re.fullmatch(r"-?\d+", one.arguments):
        return int(one.arguments)
      return arguments.get(operand)

    for one in computation:
      if one.opcode == "compare":
        direction = re.search(r"direction=(\w+)", one.attributes)
        left, right = (value(operand) for operand in one.operands)
        if direction[1] in ("LT", "GT") and (left is None) != (right is None):
          yield right if left is None else left
      if one.opcode in ("fusion", "call"):
        for called in one.called("calls", "to_apply"):
          parameters = self._module[called].parameters
          given = enumerate(one.operands)
          yield from self._limits(
            called, {parameters[i]: value(operand) for i, operand in given}
          )
