"""Biases of the keys: Hugging Face's networks have them, BEiT's do not."""

import numpy as np

from vit_jax.weights.spellings.names import Tensors

_QUERY, _KEY = ".attention.query.bias", ".attention.key.bias"


def completed(tensors: Tensors) -> Tensors:
  """Adds zero biases to keys without one whose queries have one.

  A softmax over keys is the same with any key bias, so outputs do not change.
  """
  missing = {
    name.removesuffix(_QUERY) + _KEY: np.zeros_like(tensor)
    for name, tensor in tensors.items()
    if name.endswith(_QUERY)
  }
  return {**missing, **tensors}
