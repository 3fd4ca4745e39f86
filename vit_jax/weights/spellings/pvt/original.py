"""The authors' own checkpoints: whai362/PVT."""

from typing import Any

from vit_jax.weights.spellings.contract import Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.pvt import torch

_NAMES = torch.names(
  embed=(("stage{1}/embed", "patch_embed{1}.proj", "patch_embed{1}.norm"),),
  block="block{1}.{0}",
  parts={**torch.AUTHORS, "mlp/depthwise": "mlp.dwconv.dwconv"},
  norm="norm{1}",
  head="head",
)


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  del tensors, path, notes
  return {
    "normalize": "imagenet",
    "layer_norm_eps": 1e-6,
    "map_norm_eps": 1e-5,
  }


ORIGINAL = Original(
  label="PVT v2",
  names=_NAMES,
  said=_said,
  prepare=lambda tensors, path, notes: torch.apart(tensors, path),
)
