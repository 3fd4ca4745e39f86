"""FLOPs of the matrix products and convolutions of a compiled program.

On a TPU a batched product is also a convolution, with the batch as a dimension
of the window. Most positions of that window meet padding or the holes of a
dilation and are not counted.
"""

import functools
import itertools
import math
import re

from vit_jax.aot.hlo_text import Computation, Instruction

_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"\bwindow=\{([^}]*)\}")


def flops(computation: Computation, instruction: Instruction) -> int:
  """Counts two per multiply-add; 0 except for products and convolutions."""
  if instruction.opcode == "dot":
    return _dot(computation, instruction)
  if instruction.opcode == "convolution":
    return _convolution(computation, instruction)
  return 0


def _dot(computation: Computation, instruction: Instruction) -> int:
  left, _ = computation.operand_shapes(instruction)
  found = re.search(
    r"lhs_contracting_dims=\{([\d,]*)\}", instruction.attributes
  )
  contracted = [int(dim) for dim in found[1].split(",") if dim] if found else []
  inner = math.prod(left.dims[dim] for dim in contracted)
  return 2 * inner * math.prod(instruction.shapes[0].dims)


def _convolution(computation: Computation, instruction: Instruction) -> int:
  left, right = computation.operand_shapes(instruction)
  result = instruction.shapes[0]
  labels = _LABELS.search(instruction.attributes)
  if labels is None:
    raise ValueError(f"{instruction.name} has no dim_labels.")
  inputs = dict(zip(labels[1], left.dims, strict=True))
  kernel = dict(zip(labels[2], right.dims, strict=True))
  outputs = dict(zip(labels[3], result.dims, strict=True))
  axes = sorted(label for label in outputs if label.isdigit())
  window = _window(instruction, len(axes))
  positions = math.prod(
    _valid_positions(inputs[axis], outputs[axis], **window[int(axis)])
    for axis in axes
  )
  # The kernel's `i` counts the features of one group only.
  return 2 * positions * outputs["b"] * outputs["f"] * kernel["i"]


def _window(instruction: Instruction, rank: int) -> list[dict[str, int]]:
  """Returns the window's fields for each spatial dimension."""
  found = _WINDOW.search(instruction.attributes)
  text = dict(part.split("=") for part in found[1].split()) if found else {}

  def field(name: str, default: str) -> list[str]:
    return text[name].split("x") if name in text else [default] * rank

  return [
    {
      "size": int(size),
      "stride": int(stride),
      "low": int(pad.split("_")[0]),
      "base_dilation": int(base),
      "window_dilation": int(dilation),
    }
    for size, stride, pad, base, dilation in zip(
      field("size", "1"),
      field("stride", "1"),
      field("pad", "0_0"),
      field("lhs_dilate", "1"),
      field("rhs_dilate", "1"),
      strict=True,
    )
  ]


@functools.cache
def _valid_positions(
  input_size: int,
  output_size: int,
  *,
  size: int,
  stride: int,
  low: int,
  base_dilation: int,
  window_dilation: int,
) -> int:
  """Counts pairs of an output position and a tap that meet an element."""
  end = (input_size - 1) * base_dilation
  pairs = itertools.product(range(output_size), range(size))
  places = (at * stride + tap * window_dilation - low for at, tap in pairs)
  return sum(
    0 <= place <= end and place % base_dilation == 0 for place in places
  )
