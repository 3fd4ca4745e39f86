"""Heads that the attention of NVIDIA's cuDNN takes.

Imports neither jax nor flax, so that a command answers a bad value at once.
"""

# Units of a head; GPUs before Hopper train with half of it.
MAX_HEAD_SIZE = 256
_MULTIPLE = 8


def takes(head_size: int) -> bool:
  """True if a head may have so many units on some GPU."""
  return head_size <= MAX_HEAD_SIZE and head_size % _MULTIPLE == 0
