"""Part of an image that a step of the short attention kernel processes.

Imports neither jax nor flax, so that commands reject a bad value at once.
"""

import math

from vit_jax.models.layers.tpu_core import LANES, SUBLANES, VMEM_BYTES

# Float32 matrices of scores that the backward pass holds at a time.
SCORE_ARRAYS = 6
# Arrays that are read or written in the backward pass.
NUM_BLOCKS = 7
# Each step of a kernel's grid has a fixed cost, and 49 tokens are little work:
# short sequences share a step up to this total number of rows.
ROWS = 256


def sequences_per_step(length: int, number: int) -> int:
  """Number of sequences in a step, a divisor of `number`."""
  most = max(ROWS // _rows(length), 1)
  return max(n for n in range(1, most + 1) if number % n == 0)


def lanes_per_step(
  length: int,
  width: int,
  head_size: int,
  itemsize: int,
  has_bias: bool = False,
) -> int | None:
  """Number of lanes in a step, of whole heads: all lanes, if they fit.

  Args:
    length: Number of tokens.
    width: Lanes of all heads that a device holds.
    head_size: Lanes of a head.
    itemsize: Bytes per number.
    has_bias: True if scores have summands.

  Returns:
    None if not even the fewest possible lanes fit into a core's vector memory.
  """
  columns = -(-length // LANES) * LANES
  matrix = _rows(length) * columns * 4
  rows = max(ROWS // _rows(length), 1) * _rows(length)
  # Reads and writes overlap with the work on the previous array, so each array
  # needs two buffers.
  whole = SCORE_ARRAYS * matrix
  per_lane = 2 * NUM_BLOCKS * rows * itemsize
  if has_bias:
    whole += 2 * (rows // _rows(length)) * matrix  # Masks.
    per_lane += 2 * 2 * matrix / head_size  # A head's bias and its gradient.
  unit = math.lcm(head_size, LANES)
  for lanes in (width, *range(width - width % unit, 0, -unit)):
    if width % lanes == 0 and whole + per_lane * lanes <= VMEM_BYTES:
      return lanes
  return None


def fits(
  length: int, width: int, num_heads: int, dtype: str, *, has_bias: bool
) -> bool:
  """Tells whether the kernel has room for the scores of at least one head.

  Args:
    length: Number of tokens.
    width: Lanes of all heads.
    num_heads: Number of heads.
    dtype: Dtype of the network: 'float32' or 'bfloat16'.
    has_bias: True if scores have summands.
  """
  itemsize = {"float32": 4, "bfloat16": 2}[dtype]
  head_size = width // num_heads
  lanes = lanes_per_step(length, width, head_size, itemsize, has_bias)
  return lanes is not None


def _rows(length: int) -> int:
  return -(-length // SUBLANES) * SUBLANES
