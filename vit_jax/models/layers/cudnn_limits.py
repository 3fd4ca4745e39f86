"""Head sizes that the attention of NVIDIA's cuDNN supports.

Imports neither jax nor flax, so that commands reject a bad value at once.
"""

# Units of a head with which all GPUs train; Hopper and later support 256.
MAX_HEAD_SIZE = 128
_MULTIPLE = 8


def takes(head_size: int) -> bool:
  """Tells whether every GPU supports heads of this size."""
  return head_size <= MAX_HEAD_SIZE and head_size % _MULTIPLE == 0
