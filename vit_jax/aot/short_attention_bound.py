"""The fewest cycles of the kernels of `vit_jax.models.layers.short_attention`.

Not an estimate of their time but one that they cannot beat: the longer of
what the matrix units and the memory need for themselves. What a schedule loses
between the two, or in filling them, is not in it.

- A matrix unit is a square, 256 a side on v6e and 128 before, and takes a row
  against the numbers it holds in a cycle. How many there are follows from the
  datasheet: peak FLOP/s = units x side^2 x 2 x clock. What does not fill a
  square costs as much as what does.
- The memory has the bandwidth of the datasheet, and every array crosses it
  once. What the compiler leaves in vector memory for the kernel does not, so
  where the memory is the longer, the bound is of a call whose neighbours leave
  nothing there.
- The vector units are never the longest: 10 operations on each register of
  1024 scores in the backward pass, of which a core does 4 in a cycle (v4: 2),
  against the 5 x 8 rows of its products in 4 matrix units (v4: 4 a core). Those
  rates are the slots of an instruction in libtpu's reports of utilisation,
  `LIBTPU_INIT_ARGS='--xla_jf_dump_to=DIR --xla_jf_dump_llo_text=true'`.
"""

import math
import re

from vit_jax.aot.kernel_call import Call
from vit_jax.sharding.topologies import Accelerator

# Rows of a register.
SUBLANES = 8
# Of each head. Forward: q k^T and p v. Backward: q k^T, dv, dp, dq and dk.
NUM_PRODUCTS = {"forward": 2, "backward": 5}


def cycles(call: Call, accelerator: Accelerator) -> float:
  """The fewest cycles that a call may take on a device.

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
