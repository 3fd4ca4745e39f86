"""Swin and Swin V2 as timm's SwinTransformer and SwinTransformerV2."""

import re
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.models.swin import sizes
from vit_jax.weights import flat
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.swin import timm
from vit_jax.weights.spellings.timm_network import (
  TimmNetwork,
  TimmWriter,
  cannot,
)

_KINDS = {1: "SwinTransformer", 2: "SwinTransformerV2"}
# Depths and first width -> name of the architecture.
_NAMES = {numbers[::2]: name for name, numbers in sizes.VARIANTS.items()}
_WORDS = {"T": "tiny", "S": "small", "B": "base", "L": "large"}
_ENDS = {1: "_patch4_window7_224", 2: "_window8_256"}
# timm has no version 2 L whose windows come from a single training.
_LARGE = "swinv2_large_window12_192"
_PART = re.compile(r"(.+\.attn)\.([qkv])\.(weight|bias)")


def _network(model: schema.Model) -> TimmNetwork:
  size = sizes.swin(model)
  if model.image_size % size.patch_size:
    raise cannot(
      _KINDS[size.version],
      f"model.image_size={model.image_size}, which is not a multiple of"
      f" model.patch_size={size.patch_size}",
    )
  if model.pad_before_shift and size.order_matters(model.image_size):
    raise cannot(
      _KINDS[size.version],
      f"model.pad_before_shift=True at model.image_size={model.image_size},"
      " where windows leave a rest",
    )
  name = _WORDS[_NAMES.get((size.depths, size.width), "T")]
  start = "swin_" if size.version == 1 else "swinv2_"
  architecture = f"{start}{name}{_ENDS[size.version]}"
  if (size.version, name) == (2, "large"):
    architecture = _LARGE
  arguments: dict[str, Any] = {
    "img_size": model.image_size,
    "patch_size": size.patch_size,
    "embed_dim": size.width,
    "depths": list(size.depths),
    "num_heads": list(size.num_heads),
    "window_size": size.window_size,
  }
  if size.version == 2:
    windows = model.pretrained_window_sizes or (0,) * len(size.depths)
    arguments["pretrained_window_sizes"] = list(windows)
  return TimmNetwork(
    architecture=architecture,
    arguments=arguments,
    pool="avg",
    width=size.widths()[-1],
    first_conv="patch_embed.proj",
    classifier="head.fc",
    fixed_input_size=True,
  )


def _tensors(model: schema.Model, params: Tensors) -> Tensors:
  written = names.write(flat.unflatten(params), timm.TIMM.names)
  found: dict[str, np.ndarray] = {}
  for name, tensor in written.items():
    match = _PART.fullmatch(name)
    if match is None:
      is_scale = name.endswith(".logit_scale")
      found[name] = tensor.reshape(-1, 1, 1) if is_scale else tensor
    elif match[3] == "bias" and model.version == 2:
      found[f"{match[1]}.{match[2]}_bias"] = tensor
    elif match[2] == "q":
      arrays = [written[f"{match[1]}.{part}.{match[3]}"] for part in "qkv"]
      found[f"{match[1]}.qkv.{match[3]}"] = np.concatenate(arrays)
  return found


WRITER = TimmWriter(
  writes=lambda model: model.name == "swin",
  network=_network,
  tensors=_tensors,
)
