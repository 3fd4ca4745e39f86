"""PyTorch names of a BiT, which differ in three places."""

import logging

import numpy as np

from vit_jax.config import schema
from vit_jax.weights.spellings.names import Names, Tensors

_logger = logging.getLogger(__name__)


def names(root: str, unit: str, head: str) -> Names:
  """Builds the names of a pre-activation ResNet.

  Args:
    root: Name of the first convolution.
    unit: Name of a residual unit, with numbers as in `Names`.
    head: Name of the classifier.
  """
  ours = "block{1}/unit{01}"
  rows = [("root_conv", root), ("norm", "norm"), ("head", head)]
  for number, letter in enumerate("abc", 1):
    rows.append((f"{ours}/{letter}_norm", f"{unit}.norm{number}"))
    rows.append((f"{ours}/{letter}", f"{unit}.conv{number}"))
  rows.append((f"{ours}/proj", f"{unit}.downsample.conv"))
  return Names(tuple(rows), required=(f"{root}.weight",))


def with_torchs_constants(model: schema.Model, tensors: Tensors) -> Tensors:
  """Compensates for a different epsilon in the standardised convolutions.

  Both divide kernels by sqrt(variance + eps), but eps is 1e-10 in the original
  and 1e-8 here. Kernels ten times as large give the same quotient and change
  nothing else, as they are standardised.
  """
  if model.standardization == "torch":
    return tensors
  _logger.warning(
    "Convolutions are written ten times as large, which evens out what the"
    " BiTs of Hugging Face and timm add to their variance: outputs are the"
    " same, but further training has smaller relative updates."
  )
  return {
    name: tensor * np.float32(10) if tensor.ndim == 4 else tensor
    for name, tensor in tensors.items()
  }
