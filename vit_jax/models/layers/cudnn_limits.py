"""Heads that the attention of NVIDIA's cuDNN takes.

Imports neither jax nor flax, so that a command answers a bad value at once.
"""

# Units of a head with which all GPUs train; Hopper and later take 256.
MAX_HEAD_SIZE = 128
_MULTIPLE = 8


def takes(head_size: int) -> bool:
  """True if a head may have so many units on every GPU."""
  return head_size <= MAX_HEAD_SIZE and head_size % _MULTIPLE == 0
