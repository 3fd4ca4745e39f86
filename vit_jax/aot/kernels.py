"""Lower bounds for our own kernels, whose cost the compiler does not know.

A Pallas kernel is a custom call in the compiled program, without an estimate.
`BOUNDS` has a lower bound for each of ours, from the shapes it is called with.
"""

import re
from collections.abc import Callable

from vit_jax.aot import short_attention_bound
from vit_jax.aot.hlo_text import Computation, Instruction
from vit_jax.aot.kernel_call import Call
from vit_jax.sharding.topologies import Accelerator

TARGET = "tpu_custom_call"


Bound = Callable[[Call, Accelerator], float]

# The beginning of a kernel's name -> the fewest cycles that a call may take on
# a device. The longest beginning counts.
BOUNDS: dict[str, Bound] = {
  "short_attention_": short_attention_bound.cycles,
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
