"""The authors' own checkpoints: facebookresearch/ConvNeXt and ConvNeXt-V2."""

from typing import Any

from vit_jax.weights.spellings.contract import Original
from vit_jax.weights.spellings.convnext import torch
from vit_jax.weights.spellings.names import Tensors

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


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Removes axes of length 1 from vectors that are stored like maps."""
  del path, notes
  return {
    name: tensor.reshape(-1) if ".grn." in name else tensor
    for name, tensor in tensors.items()
  }


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  del tensors, path, notes
  return {
    "normalize": "imagenet",
    "layer_norm_eps": 1e-6,
    "head_norm_eps": 1e-6,
  }


ORIGINAL = Original(
  label="ConvNeXt, ConvNeXt V2", names=_NAMES, said=_said, prepare=_prepare
)
