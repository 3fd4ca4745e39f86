"""Share of an image that a step of the short attention kernel works on.

Imports neither jax nor flax, so that a command answers a bad value at once.
"""

import math

# A register of a TPU holds 8 rows of 128 numbers of 32 bits.
SUBLANES = 8
LANES = 128
# What a call may take of the vector memory: a kernel is given 16 MiB of it, and
# the compiler wants some for itself.
VMEM_BYTES = 13 * 2**20
# Matrices of scores, float32, that the backward pass has at one time.
SCORE_ARRAYS = 6
# Arrays that come or go in the backward pass.
NUM_BLOCKS = 7


def lanes_per_step(
  length: int, width: int, head_size: int, itemsize: int
) -> int | None:
  """Lanes of whole heads that a step works on: all of them, if they fit.

  Args:
    length: Number of tokens.
    width: Lanes of all heads that a device holds.
    head_size: Lanes of a head.
    itemsize: Bytes of a number.

  Returns:
    None if not even the fewest possible fit into a core's vector memory.
  """
  rows = -(-length // SUBLANES) * SUBLANES
  columns = -(-length // LANES) * LANES
  scores = SCORE_ARRAYS * rows * columns * 4
  # Each comes or goes while the one before it is worked on.
  per_lane = 2 * NUM_BLOCKS * rows * itemsize
  unit = math.lcm(head_size, LANES)
  for lanes in (width, *range(width - width % unit, 0, -unit)):
    if width % lanes == 0 and scores + per_lane * lanes <= VMEM_BYTES:
      return lanes
  return None
