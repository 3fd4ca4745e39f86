"""Lower bounds for our own kernels, which the compiler cannot cost.

A Pallas kernel is a custom call in the compiled program, without an estimate.
`BOUNDS` has a lower bound for each of ours, computed from the shapes of its
operands.
"""

import dataclasses
import math
import re
from collections.abc import Callable

from vit_jax.aot.hlo_text import Computation, Instruction, Shape
from vit_jax.models.layers.tpu_core import LANES, SUBLANES
from vit_jax.sharding.topologies import Accelerator

TARGET = "tpu_custom_call"
# Products per head. Forward: q k^T and p v. Backward: q k^T, dv, dp, dq and dk.
NUM_PRODUCTS = {"forward": 2, "backward": 5}
# Backward: the gradients of the map and of the filters.
NUM_CONVOLUTIONS = {"forward": 1, "backward": 2}


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
  """Bounds a kernel of `vit_jax.models.layers.short_attention`.

  It is a time that the kernel cannot beat, not an estimate: the longer of the
  times that the matrix units and the memory need on their own. It excludes what
  a schedule loses between the two or in filling them.

  - A matrix unit is a square with a side of 256 on v6e and 128 before, and
    multiplies a row by the numbers it holds in one cycle. The number of units
    follows from the datasheet: peak FLOP/s = units x side^2 x 2 x clock. A
    partly filled square costs as much as a full one.
  - The memory has the bandwidth of the datasheet, and every array crosses it
    once. Arrays that the compiler leaves in vector memory do not, so if the
    memory takes longer, the bound is that of a call without such arrays.
  - The vector units are never the bottleneck: they need 10 operations on each
    register of 1024 scores in the backward pass, or 13 if a bias and a mask are
    added, at 4 per cycle and core (v4: 2), compared with the 5 x 8 rows of its
    products in 4 matrix units (v4: 4 per core).

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
  # Each product's square has tokens along one side, a head's numbers along the
  # other.
  squares = math.ceil(length / side) * math.ceil(int(head_size) / side)
  products = batch * num_heads * NUM_PRODUCTS[direction]
  matrix = products * squares * rows / num_units

  return max(matrix, _memory_cycles(call, accelerator))


def depthwise_conv_cycles(call: Call, accelerator: Accelerator) -> float:
  """Bounds a kernel of `vit_jax.models.layers.depthwise_kernel`.

  It is the longer of the times that the vector units and the memory need on
  their own. For each register, of 8 images and 128 channels at one place, and
  each tap the vector units multiply and add, twice in the backward pass. The
  compiler's schedule for v5e and a map of 56 x 56 is 16 % longer in the forward
  pass and 7 % in the backward pass, mostly for zeros around the map and the
  conversion to float32.

  Args:
    call: Call of depthwise_conv_forward_7 or depthwise_conv_backward_7, named
      by the side of the filters, on maps (h, w, b, c).
    accelerator: TPU that it runs on.
  """
  direction, side = re.fullmatch(
    r"depthwise_conv_(forward|backward)_(\d+)", call.name
  ).groups()
  height, width, images, channels = call.operands[0].dims
  registers = (
    height * width * math.ceil(images / SUBLANES) * math.ceil(channels / LANES)
  )
  operations = 2 * NUM_CONVOLUTIONS[direction] * int(side) ** 2
  vector = registers * operations / accelerator.vector_slots
  return max(vector, _memory_cycles(call, accelerator))


def _memory_cycles(call: Call, accelerator: Accelerator) -> float:
  """Cycles in which the memory moves every operand and result once."""
  moved = sum(shape.num_bytes for shape in (*call.operands, *call.results))
  bandwidth = accelerator.hbm_bandwidth / accelerator.devices_per_chip
  return moved / bandwidth * accelerator.clock


# Prefix of a kernel's name -> minimum cycles of a call on a device. The longest
# prefix counts.
BOUNDS: dict[str, Callable[[Call, Accelerator], float]] = {
  "depthwise_conv_": depthwise_conv_cycles,
  "short_attention_": short_attention_cycles,
}


def call(computation: Computation, instruction: Instruction) -> Call | None:
  """Returns the kernel that an instruction calls; None if it calls none."""
  if f'custom_call_target="{TARGET}"' not in instruction.attributes:
    return None
  traced = re.search(
    r'op_name="[^"]*?(\w+)\)*/pallas_call', instruction.attributes
  )
  return Call(
    name=traced[1] if traced else re.sub(r"[.\d]+$", "", instruction.name),
    operands=computation.operand_shapes(instruction),
    results=instruction.shapes,
  )


def bound(kernel: Call, accelerator: Accelerator) -> float | None:
  """Returns the minimum cycles of a call; None if it has no bound."""
  known = [prefix for prefix in BOUNDS if kernel.name.startswith(prefix)]
  return BOUNDS[max(known, key=len)](kernel, accelerator) if known else None
