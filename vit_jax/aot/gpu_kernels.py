"""Kernels of a program compiled by XLA for a GPU: bytes and FLOPs of each.

The bytes are those of a kernel's inputs and outputs, as if nothing stayed in a
cache between kernels.
"""

import dataclasses
import math
import re

from vit_jax.aot import matrix_flops
from vit_jax.aot.hlo_text import Computation, Instruction, Module, Shape

PRODUCTS, ATTENTION = "products (cuBLAS)", "attention (cuDNN)"
CONVOLUTIONS, FUSIONS, COPIES = "convolutions (cuDNN)", "fusions", "copies"
# Operations that are not kernels.
_FREE = {
  "after-all",
  "bitcast",
  "conditional",
  "call",
  "constant",
  "copy-done",
  "get-tuple-element",
  "opt-barrier",
  "parameter",
  "partition-id",
  "replica-id",
  "tuple",
  "while",
}
_EXCHANGES = ("all-", "reduce-scatter", "collective-", "async-", "send", "recv")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_CONTRACTING = re.compile(r'"lhs_contracting_dimensions":\[([^\]]*)\]')
_LIBRARIES = (
  ("__cublas", PRODUCTS),
  ("__cudnn$fmha", ATTENTION),
  ("__cudnn$conv", CONVOLUTIONS),
)
# Operations of which a kernel reads only the part it returns.
_SLICES = ("dynamic-slice", "slice", "gather")


@dataclasses.dataclass(frozen=True)
class Kernel:
  """A kernel.

  Attributes:
    kind: Kind of the kernel, such as `FUSIONS`.
    num_bytes: Bytes that it reads and writes.
    flops: FLOPs of its matrix products.
  """

  kind: str
  num_bytes: int
  flops: int


def kernel(
  module: Module, computation: Computation, instruction: Instruction
) -> Kernel | None:
  """Returns an instruction's kernel; None for exchanges and free operations."""
  opcode = instruction.opcode
  if opcode in _FREE or opcode.startswith(_EXCHANGES):
    return None
  if opcode == "custom-call":
    return _of_library(computation, instruction)
  if opcode == "fusion":
    return _fused(module, computation, instruction)
  kind = COPIES if opcode in ("copy", "copy-start") else opcode
  taken = sum(s.num_bytes for s in computation.operand_shapes(instruction))
  if opcode in _SLICES:
    taken = instruction.num_bytes
  flops = matrix_flops.flops(computation, instruction)
  return Kernel(kind, taken + instruction.num_bytes, flops)


def _of_library(computation: Computation, instruction: Instruction) -> Kernel:
  """Returns a library kernel, without its workspace."""
  found = _TARGET.search(instruction.attributes)
  target = found[1] if found else "custom-call"
  kind = next(
    (kind for start, kind in _LIBRARIES if target.startswith(start)), target
  )
  given = [s for s in instruction.shapes if s.dtype not in ("s8", "u8")]
  taken = computation.operand_shapes(instruction)
  flops = 0
  if kind == PRODUCTS:
    inner = _CONTRACTING.search(instruction.attributes)
    axes = re.findall(r"\d+", inner[1]) if inner else []
    depth = math.prod(taken[0].dims[int(axis)] for axis in axes)
    flops = 2 * math.prod(given[0].dims) * depth
  elif kind == ATTENTION:
    # Queries [images, tokens, heads, units] and keys; two products forward,
    # five backward.
    products = 5 if "Backward" in target else 2
    flops = products * 2 * math.prod(taken[0].dims) * taken[1].dims[1]
  moved = sum(shape.num_bytes for shape in (*taken, *given))
  return Kernel(kind, moved, flops)


def _fused(
  module: Module, computation: Computation, fusion: Instruction
) -> Kernel:
  (name,) = fusion.called("calls")
  inside = module[name]
  taken = sum(
    _read(inside, inside.parameters[i], shape)
    for i, shape in enumerate(computation.operand_shapes(fusion))
    if i in inside.parameters
  )
  flops = sum(matrix_flops.flops(inside, inner) for inner in inside)
  return Kernel(FUSIONS, taken + _written(inside), flops)


def _read(inside: Computation, parameter: str, shape: Shape) -> int:
  """Counts bytes that a fusion reads of an operand: all, or slices of it."""
  total = 0
  for user in inside:
    if parameter not in user.operands:
      continue
    first = user.operands[0] == parameter
    if first and user.opcode in _SLICES:
      total += user.num_bytes
    elif first and user.opcode == "dynamic-update-slice":
      continue  # It is written in place.
    else:
      return shape.num_bytes
  return min(total, shape.num_bytes)


def _written(inside: Computation) -> int:
  """Counts bytes that a fusion writes: its result, or the parts replaced."""
  root = inside[inside.root]
  parts = [root]
  if root.opcode == "tuple":
    parts = [inside[operand] for operand in root.operands]
  return sum(
    inside[part.operands[1]].num_bytes
    if part.opcode == "dynamic-update-slice"
    else part.num_bytes
    for part in parts
  )
