"""Hugging Face's Swin and Swinv2.

Files use the names that transformers has always written; the names that its
newer modules use internally are understood as well.
"""

import re
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.models.swin import sizes
from vit_jax.weights.fields import COUNT, NUMBERS, TEXT, Fields
from vit_jax.weights.spellings import zero_biases
from vit_jax.weights.spellings.contract import HuggingFace
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.swin import torch
from vit_jax.weights.spellings.unwritable import Unwritable

_EPSILON = 1e-5  # For all norms.
_CLASSES = {1: "Swin", 2: "Swinv2"}
_SELF = "attention.self"
_PARTS = {
  "attention_norm": "layernorm_before",
  "attention/queries": f"{_SELF}.query",
  "attention/keys": f"{_SELF}.key",
  "attention/values": f"{_SELF}.value",
  "attention/output": "attention.output.dense",
  "attention/positions": f"{_SELF}.relative_position_bias_table",
  "attention/log_scale": f"{_SELF}.logit_scale",
  "attention/position_hidden": f"{_SELF}.continuous_position_bias_mlp.0",
  "attention/position_bias": f"{_SELF}.continuous_position_bias_mlp.2",
  "mlp_norm": "layernorm_after",
  "expand": "intermediate.dense",
  "project": "output.dense",
}
_NAMES = torch.names(
  stem=("embeddings.patch_embeddings.projection", "embeddings.norm"),
  block="encoder.layers.{0}.blocks.{0}",
  parts=_PARTS,
  merge="encoder.layers.{0}.downsample",
  norm="layernorm",
  head="classifier",
)
# Patterns of the newer modules' names, and the names in files.
_NEWER = (
  (re.compile(r"\.attention\.relative_position_bias\."), f".{_SELF}."),
  (re.compile(r"\.attention\.q_proj\."), f".{_SELF}.query."),
  (re.compile(r"\.attention\.k_proj\."), f".{_SELF}.key."),
  (re.compile(r"\.attention\.v_proj\."), f".{_SELF}.value."),
  (re.compile(r"\.attention\.o_proj\."), ".attention.output.dense."),
  (re.compile(r"\.mlp\.fc1\."), ".intermediate.dense."),
  (re.compile(r"\.mlp\.fc2\."), ".output.dense."),
)
_MASK_TOKEN = "embeddings.mask_token"


def _file_name(name: str) -> str:
  for pattern, replacement in _NEWER:
    name = pattern.sub(replacement, name)
  return name


def _select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """Selects the tensors that affect outputs; adds notes about the others."""
  notes = []
  unused = {name for name in tensors if name.startswith("decoder.")}
  if unused:
    notes.append(f"The decoder ({len(unused)} tensors) is left out.")
  if _MASK_TOKEN in tensors:
    notes.append(f"The mask token ({_MASK_TOKEN}) is left out.")
    unused.add(_MASK_TOKEN)
  parameters = torch.parameters(tensors)
  found = torch.with_biases(parameters, _PARTS)
  if len(found) > len(parameters):
    zero_biases.check(config)
  return {n: x for n, x in found.items() if n not in unused}, notes


def _said(config: Fields, tensors: Tensors) -> dict[str, Any]:
  del tensors
  if config.get("hidden_act", TEXT, "gelu") != "gelu":
    raise config.refusal("hidden_act", "is not 'gelu', as in our Swins")
  return {
    "image_size": config.side("image_size", 224),
    "pos_embedding_resize": "bicubic",
    "pad_before_shift": True,
  }


def _said_v2(config: Fields, tensors: Tensors) -> dict[str, Any]:
  said = _said(config, tensors)
  said["window_size"] = config.get("window_size", COUNT, 7)
  windows = config.get("pretrained_window_sizes", NUMBERS, [0])
  if any(windows):
    said["pretrained_window_sizes"] = tuple(map(int, windows))
  return said


def _check_rounding(size: sizes.SwinSize, image_size: int) -> None:
  """Checks that version 2 has our windows, as we round map sizes up.

  transformers rounds map sizes down for its windows and shifts.

  Raises:
    Unwritable: Some stage has different windows at this image size.
  """
  numbers = zip(
    size.depths,
    size.windows(image_size),
    size.shifts(image_size),
    strict=True,
  )
  for stage, (depth, window, shift) in enumerate(numbers):
    side = image_size // size.patch_size // 2**stage
    is_moved = depth > 1 and shift > 0
    if min(size.window_size, side) != window or (
      is_moved and side <= size.window_size
    ):
      larger = -(-image_size // size.stride) * size.stride
      raise Unwritable(
        "Hugging Face's Swinv2 has other windows than ours in stage"
        f" {stage + 1} at model.image_size={image_size}, which is not a"
        f" multiple of {size.stride} pixels",
        f"Use an image_size that is one, such as {larger}.",
      )


def _config(model: schema.Model) -> dict[str, Any]:
  size = sizes.swin(model)
  if size.version == 2:
    _check_rounding(size, model.image_size)
  windows = size.windows(model.image_size)
  if size.version == 1 and min(windows) < size.window_size:
    raise Unwritable(
      "Hugging Face's Swin cannot have windows smaller than"
      f" model.window_size={size.window_size} in a stage, which at"
      f" model.image_size={model.image_size} has {min(windows)}"
    )
  if not model.pad_before_shift and size.order_matters(model.image_size):
    raise Unwritable(
      "Hugging Face's Swin cannot have model.pad_before_shift=False at"
      f" model.image_size={model.image_size}, where windows leave a rest"
    )
  kind = "Model" if model.num_classes is None else "ForImageClassification"
  found = {
    "architectures": [_CLASSES[size.version] + kind],
    "image_size": model.image_size,
    "patch_size": size.patch_size,
    "num_channels": 3,
    "embed_dim": size.width,
    "depths": list(size.depths),
    "num_heads": list(size.num_heads),
    "window_size": size.window_size,
    "mlp_ratio": float(sizes.EXPANSION),
    "qkv_bias": True,
    "hidden_act": "gelu",
    "use_absolute_embeddings": False,
    "layer_norm_eps": _EPSILON,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "drop_path_rate": 0.0,
  }
  if size.version == 2:
    windows = model.pretrained_window_sizes or (0,) * len(size.depths)
    found["pretrained_window_sizes"] = list(windows)
  return found


def _processor(model: schema.Model) -> dict[str, Any]:
  side = {"height": model.image_size, "width": model.image_size}
  return {"image_processor_type": "ViTImageProcessor", "size": side}


def _scale(model: schema.Model, tensors: Tensors) -> Tensors:
  """Gives scales the axes that they have in Hugging Face's network."""
  del model
  return {
    name: np.reshape(tensor, (-1, 1, 1))
    if name.endswith(".logit_scale")
    else tensor
    for name, tensor in tensors.items()
  }


def _record(version: int, prefix: str, said) -> HuggingFace:
  return HuggingFace(
    writes=lambda model: model.name == "swin" and model.version == version,
    prefix=prefix,
    normalize="imagenet",
    names=_NAMES,
    said=said,
    config=_config,
    unchecked=frozenset(
      {
        "hidden_act",
        "qkv_bias",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "drop_path_rate",
        "pretrained_window_sizes",
      }
    ),
    processor=_processor,
    file_name=_file_name,
    select=_select,
    scale=_scale,
  )


SWIN = _record(1, "swin.", _said)
SWIN_V2 = _record(2, "swinv2.", _said_v2)
