"""timm's swin_* and swinv2_*."""

from typing import Any

from vit_jax.errors import UserError
from vit_jax.weights.fields import COUNT, NUMBERS, TEXT, Fields
from vit_jax.weights.spellings.contract import Timm
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.swin import torch

_NAMES = torch.names(
  stem=("patch_embed.proj", "patch_embed.norm"),
  block="layers.{0}.blocks.{0}",
  parts=torch.AUTHORS,
  merge="layers.{1}.downsample",
  norm="norm",
  head="head.fc",
)
# The authors' files have the merging at the end of a stage.
_AUTHORS_MERGE = "layers.0.downsample.reduction.weight"


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Returns parameters with joined projections split.

  Raises:
    UserError: The file has the authors' names.
  """
  del notes
  if _AUTHORS_MERGE in tensors:
    raise UserError(
      f"{path} has the authors' names of a Swin, not timm's:"
      f" '{_AUTHORS_MERGE}' is the end of a stage. Load the original .pth, or"
      " timm's own file."
    )
  return torch.apart(tensors, path)


def _said(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  del path, notes
  arguments = config.mapping("model_args")
  said: dict[str, Any] = {
    "pos_embedding_resize": "geometric",
    "pad_before_shift": False,
  }
  if "layers.0.blocks.0.attn.logit_scale" not in tensors:
    return said
  said |= torch.windows(config.get("architecture", TEXT, "swinv2"))
  if "window_size" in arguments:
    said["window_size"] = arguments.get("window_size", COUNT)
  if "pretrained_window_sizes" in arguments:
    sizes = arguments.get("pretrained_window_sizes", NUMBERS)
    said["pretrained_window_sizes"] = tuple(map(int, sizes))
  return said


TIMM = Timm(
  label="swin_*_patch*, swinv2_*_window*",
  architectures=r"swin(v2)?_(tiny|small|base|large)_",
  names=_NAMES,
  prepare=_prepare,
  said=_said,
  fixed={"global_pool": "avg", "act_layer": "gelu"},
  biases=r"\.attn\.(qkv\.bias|[qv]_bias)",
)
