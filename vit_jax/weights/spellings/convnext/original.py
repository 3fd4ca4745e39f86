"""The authors' checkpoints: facebookresearch/ConvNeXt, ConvNeXt-V2, dinov3."""

import re
from typing import Any

import numpy as np

from vit_jax.models.convnext import sizes
from vit_jax.weights.spellings.contract import Original
from vit_jax.weights.spellings.convnext import torch
from vit_jax.weights.spellings.names import Tensors

_NORMS = "norms."
_NAMES = torch.names(
  stem=("downsample_layers.0.0", "downsample_layers.0.1"),
  downsample="downsample_layers.{1}",
  block="stages.{0}.{0}",
  parts={
    "depthwise": "dwconv",
    "norm": "norm",
    "expand": "pwconv1",
    "project": "pwconv2",
    "gamma": "gamma",
    "grn/scale": "grn.gamma",
    "grn/bias": "grn.beta",
  },
  norm="norm",
  head="head",
)
_GRN = re.compile(r"stages\.\d+\.0\.grn\.gamma")  # Of a stage's first block.


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Adds the norm that FCMAE's files lack, and removes axes of length 1.

  DINOv3's files hold the last norm twice, also as the norm of the last stage.
  """
  del path
  prepared = {
    name: tensor.reshape(-1) if ".grn." in name else tensor
    for name, tensor in tensors.items()
    if not name.startswith(_NORMS)
  }
  grns = sorted(filter(_GRN.fullmatch, tensors))
  tops = [name for name in tensors if name.startswith(("norm.", "head."))]
  if grns and not tops:
    width = tensors[grns[-1]].size // sizes.EXPANSION
    prepared["norm.weight"] = np.ones(width, np.float32)
    prepared["norm.bias"] = np.zeros(width, np.float32)
    notes.append(
      "There is neither a last norm nor a head, as in masked autoencoders"
      " (FCMAE), so the last norm has scales of 1 and biases of 0."
    )
  return prepared


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  del tensors, path, notes
  return {
    "normalize": "imagenet",
    "layer_norm_eps": 1e-6,
    "head_norm_eps": 1e-6,
  }


ORIGINAL = Original(
  label="ConvNeXt, ConvNeXt V2, DINOv3's ConvNeXt",
  names=_NAMES,
  said=_said,
  prepare=_prepare,
)
