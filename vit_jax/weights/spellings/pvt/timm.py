"""timm's pvt_v2_*."""

from typing import Any

from vit_jax.weights.fields import NUMBERS, Fields
from vit_jax.weights.spellings.contract import Timm
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.pvt import torch

_NAMES = torch.names(
  embed=(
    ("stage1/embed", "patch_embed.proj", "patch_embed.norm"),
    (
      "stage{2}/embed",
      "stages.{1}.downsample.proj",
      "stages.{1}.downsample.norm",
    ),
  ),
  block="stages.{0}.blocks.{0}",
  parts={**torch.AUTHORS, "mlp/depthwise": "mlp.dwconv"},
  norm="stages.{0}.norm",
  head="head",
)


def _said(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  del tensors, path, notes
  arguments = config.mapping("model_args")
  said: dict[str, Any] = {"layer_norm_eps": 1e-6, "map_norm_eps": 1e-5}
  if "num_heads" in arguments:
    said["num_heads"] = tuple(map(int, arguments.get("num_heads", NUMBERS)))
  return said


TIMM = Timm(
  label="pvt_v2_*",
  architectures=r"pvt_v2_",
  names=_NAMES,
  prepare=lambda tensors, path, notes: torch.apart(tensors, path),
  said=_said,
  arguments=frozenset({"embed_dims", "linear", "mlp_ratios", "sr_ratios"}),
  fixed={"global_pool": "avg"},
  biases=r"\.attn\.(q|kv)\.bias",
)
