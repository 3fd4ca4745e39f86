"""timm's convnext_* and convnextv2_*."""

import re
from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.fields import NUMBER, TEXT, Fields
from vit_jax.weights.spellings.contract import Timm
from vit_jax.weights.spellings.convnext import torch
from vit_jax.weights.spellings.names import Tensors

_NAMES = torch.names(
  stem=("stem.0", "stem.1"),
  downsample="stages.{1}.downsample",
  block="stages.{0}.blocks.{0}",
  parts={
    "depthwise": "conv_dw",
    "norm": "norm",
    "expand": "mlp.fc1",
    "project": "mlp.fc2",
    "gamma": "gamma",
    "grn/scale": "mlp.grn.weight",
    "grn/bias": "mlp.grn.bias",
  },
  norm="head.norm",
  head="head.fc",
)
# Stem strides from which the last stages are dilated: timm halves maps only
# down to 1/32 of the image.
DILATED_STRIDE = 8
# Patterns of names without a counterpart in our networks, and their part.
_UNKNOWN = (
  (r"^norm_pre\.", "a norm before the pooling (head_norm_first)"),
  (r"^stem\.[23]\.", "a stem of convolutions that overlap"),
  (r"^head\.pre_logits\.", "a hidden layer before the classifier"),
  (r"^stages\.0\.downsample\.", "a stride in its first stage too"),
  (r"\.shortcut\.", "convolutions around the blocks"),
)
# Architectures whose norms have a different epsilon.
_LARGE_EPSILON = re.compile(r"convnext_xxlarge")


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Turns dense layers stored as 1 x 1 convolutions into matrices.

  Raises:
    UserError: The file has a part that our networks do not have.
  """
  del notes
  for pattern, part in _UNKNOWN:
    name = next((name for name in tensors if re.search(pattern, name)), None)
    if name is not None:
      raise UserError(
        f"{path} has {part} ('{name}'), which our networks do not have, so it"
        " cannot be loaded."
      )
  stride = np.shape(tensors.get("stem.0.weight"))[-1:]
  if stride >= (DILATED_STRIDE,):
    raise UserError(
      f"{path} has a stem of stride {stride[0]} ('stem.0.weight'), after which"
      " timm dilates convolutions, which our networks do not, so it cannot be"
      " loaded."
    )
  return {
    name: tensor[:, :, 0, 0]
    if re.search(r"\.mlp\.fc[12]\.weight$", name) and tensor.shape[2:] == (1, 1)
    else tensor
    for name, tensor in tensors.items()
  }


def _said(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  del tensors, path, notes
  arguments = config.mapping("model_args")
  name = config.get("architecture", TEXT, "convnext")
  usual = 1e-5 if _LARGE_EPSILON.match(name) else 1e-6
  epsilon = arguments.get("norm_eps", NUMBER, usual)
  return {"layer_norm_eps": epsilon, "head_norm_eps": epsilon}


TIMM = Timm(
  label="convnext_*, convnextv2_*",
  architectures=r"convnext(v2)?_",
  names=_NAMES,
  prepare=_prepare,
  said=_said,
  fixed={"global_pool": "avg", "act_layer": "gelu"},
)
