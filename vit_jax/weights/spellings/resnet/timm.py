"""timm's BiT, resnetv2_*_bit."""

from vit_jax.weights.spellings.contract import Timm
from vit_jax.weights.spellings.resnet import torch

TIMM = Timm(
  label="resnetv2_*_bit",
  architectures=r"resnetv2_\w+_bit",
  names=torch.names(
    root="stem.conv", unit="stages.{0}.blocks.{0}", head="head.fc"
  ),
  said=lambda config, tensors, path, notes: {"standardization": "torch"},
  fixed={"global_pool": "avg", "act_layer": "relu"},
)
