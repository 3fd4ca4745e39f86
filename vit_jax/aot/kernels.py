"""Lower bounds for our own kernels, whose cost the compiler does not know.

A Pallas kernel is a custom call in the compiled program, without an estimate.
`BOUNDS` has a lower bound for each of ours, from the shapes it is called with.
"""

import dataclasses
import math
import re
from collections.abc import Callable

from vit_jax.aot.hlo_text import Computation, Instruction, Shape
from vit_jax.sharding.topologies import Accelerator

TARGET = "tpu_custom_call"
# Rows of a register.
SUBLANES = 8
# Of each head. Forward: q k^T and p v. Backward: q k^T, dv, dp, dq and dk.
NUM_PRODUCTS = {"forward": 2, "backward": 5}


@dataclasses.dataclass(frozen=True)
class Call:
  """A call of a kernel on one device.

  Attributes:
    name: Value of `name` in its `pallas_call`.
    operands: Types of its operands.
    results: Types of its results.
  """

  name: str
  operands: tuple[Shape, ...]
  results: tuple[Shape, ...]


def short_attention_cycles(call: Call, accelerator: Accelerator) -> float:
  """Bound for a kernel of `vit_jax.models.layers.short_attention`.

  A time that the kernel cannot beat, not an estimate: the longer of what the
  matrix units and the memory need for themselves. What a schedule loses
  between the two, or in filling them, is not in it.

  - A matrix unit is a square, 256 a side on v6e and 128 before, and takes a
    row against the numbers it holds in a cycle. Their number follows from the
    datasheet: peak FLOP/s = units x side^2 x 2 x clock. A square that is
    partly filled costs as much as a full one.
  - The memory has the bandwidth of the datasheet, and every array crosses it
    once. Arrays that the compiler leaves in vector memory do not, so where the
    memory takes longer, the bound is that of a call without such arrays.
  - The vector units never take longest: 10 operations on each register of 1024
    scores in the backward pass, 13 where a bias and a mask are added, of which
    a core does 4 in a cycle (v4: 2), against the 5 x 8 rows of its products in
    4 matrix units (v4: 4 a core). Those rates are the slots of an instruction
    in libtpu's reports of utilisation,
    `LIBTPU_INIT_ARGS='--xla_jf_dump_to=DIR --xla_jf_dump_llo_text=true'`.

  Args:
    call: Call of short_attention_forward_64 or short_attention_backward_64,
      named by the head size, on arrays (batch, tokens, heads * head size).
    accelerator: TPU that it runs on.
  """
  direction, head_size = re.fullmatch(
    r"short_attention_(forward|backward)_(\d+)", call.name
  ).groups()
  batch, length, width = call.operands[0].dims
  num_heads = width // int(head_size)

  side = accelerator.matrix_side
  peak = 2 * side**2 * accelerator.clock
  num_units = accelerator.flops_per_device / peak
  rows = math.ceil(length / SUBLANES) * SUBLANES
  # One side of each product's square are tokens, the other a head's numbers.
  squares = math.ceil(length / side) * math.ceil(int(head_size) / side)
  products = batch * num_heads * NUM_PRODUCTS[direction]
  matrix = products * squares * rows / num_units

  moved = sum(shape.num_bytes for shape in (*call.operands, *call.results))
  bandwidth = accelerator.hbm_bandwidth / accelerator.devices_per_chip
  return max(matrix, moved / bandwidth * accelerator.clock)


# The beginning of a kernel's name -> the fewest cycles that a call may take on
# a device. The longest beginning counts.
BOUNDS: dict[str, Callable[[Call, Accelerator], float]] = {
  "short_attention_": short_attention_cycles,
}


def call(computation: Computation, instruction: Instruction) -> Call | None:
  """The kernel that an instruction calls; None if it calls none."""
  if f'custom_call_target="{TARGET}"' not in instruction.attributes:
    return None
  traced = re.search(
    r'op_name="[^"]*?([^"/]+)/pallas_call', instruction.attributes
  )
  return Call(
    name=traced[1] if traced else re.sub(r"[.\d]+$", "", instruction.name),
    operands=computation.operand_shapes(instruction),
    results=instruction.shapes,
  )


def bound(kernel: Call, accelerator: Accelerator) -> float | None:
  """The fewest cycles of a call; None if it has no bound."""
  known = [prefix for prefix in BOUNDS if kernel.name.startswith(prefix)]
  return BOUNDS[max(known, key=len)](kernel, accelerator) if known else None
