"""Biases of projections that a file may lack and our networks have."""

from collections.abc import Sequence

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.fields import FLAG, Fields
from vit_jax.weights.spellings.names import Tensors


def completed(tensors: Tensors, projections: Sequence[str]) -> Tensors:
  """Adds biases of zeros, with which outputs are the same.

  Tensors do not change if any of the projections has a bias.

  Args:
    tensors: Tensors by name.
    projections: Ends of the projections' names, such as '.attn.q'.
  """
  ends = tuple(f"{name}.weight" for name in projections)
  missing = {
    f"{name.removesuffix('weight')}bias": np.zeros(x.shape[:1], np.float32)
    for name, x in tensors.items()
    if name.endswith(ends)
  }
  return tensors if missing.keys() & tensors.keys() else {**tensors, **missing}


def check(arguments: Fields) -> None:
  """Checks that a network whose file has no biases was made without them.

  Args:
    arguments: Object of the config that may have `qkv_bias`; true if missing.

  Raises:
    UserError: It was made with biases.
  """
  if arguments.get("qkv_bias", FLAG, True):
    raise UserError(
      f"{arguments.path}: qkv_bias is true (the default), but the weights have"
      " no biases of queries, keys and values. Copy or download the weights"
      " again; for a network that was made without biases, set it to false."
    )
