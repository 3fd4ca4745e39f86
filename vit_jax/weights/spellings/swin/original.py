"""The authors' own checkpoints: microsoft/Swin-Transformer."""

import os
from typing import Any

from vit_jax.weights.spellings.contract import Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.swin import torch

_NAMES = torch.names(
  stem=("patch_embed.proj", "patch_embed.norm"),
  block="layers.{0}.blocks.{0}",
  parts=torch.AUTHORS,
  merge="layers.{0}.downsample",
  norm="norm",
  head="head",
)


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  """Returns keys that come from the published file names, not the tensors."""
  del notes
  name = os.path.basename(path)
  said: dict[str, Any] = {
    "normalize": "imagenet",
    "pos_embedding_resize": "bicubic",
    "pad_before_shift": True,
  }
  if (image_size := torch.image_size(name)) is not None:
    said["image_size"] = image_size
  if "layers.0.blocks.0.attn.logit_scale" in tensors:
    said |= torch.windows(name)
  return said


ORIGINAL = Original(
  label="Swin, Swin V2",
  names=_NAMES,
  said=_said,
  prepare=lambda tensors, path, notes: torch.apart(tensors, path),
  # The end of the first stage; in timm, the start of the second.
  marks=("layers.0.downsample.reduction.weight",),
)
