"""timm's BiT, resnetv2_*_bit."""

from typing import Any

from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.contract import Timm
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.resnet import torch


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  del path, notes
  return tensors


def _said(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  del config, tensors, path, notes
  return {"standardization": "torch"}


TIMM = Timm(
  label="resnetv2_*_bit",
  architectures=r"resnetv2_\w+_bit",
  names=torch.names(
    root="stem.conv", unit="stages.{0}.blocks.{0}", head="head.fc"
  ),
  prepare=_prepare,
  said=_said,
)
