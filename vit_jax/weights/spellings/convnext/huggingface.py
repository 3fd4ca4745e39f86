"""Hugging Face's ConvNext and ConvNextV2, and DINOv3's ConvNeXts.

The latter are read only, as their networks are those of a ConvNext.
"""

import dataclasses
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.models.convnext import sizes
from vit_jax.weights.fields import NUMBER, TEXT, Fields
from vit_jax.weights.spellings.contract import HuggingFace
from vit_jax.weights.spellings.convnext import torch
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.unwritable import Unwritable

# For all norms but the last, regardless of config.json.
_EPSILON = 1e-6
_CLASSES = {1: "ConvNext", 2: "ConvNextV2"}
_NAMES = torch.names(
  stem=("embeddings.patch_embeddings", "embeddings.layernorm"),
  downsample="encoder.stages.{1}.downsampling_layer",
  block="encoder.stages.{0}.layers.{0}",
  parts={
    "depthwise": "dwconv",
    "norm": "layernorm",
    "expand": "pwconv1",
    "project": "pwconv2",
    "gamma": "layer_scale_parameter",
    "grn/scale": "grn.weight",
    "grn/bias": "grn.bias",
  },
  norm="layernorm",
  head="classifier",
)


_NAMES_OF_DINOV3 = torch.names(
  stem=("stages.0.downsample_layers.0", "stages.0.downsample_layers.1"),
  downsample="stages.{1}.downsample_layers",
  block="stages.{0}.layers.{0}",
  parts={
    "depthwise": "depthwise_conv",
    "norm": "layer_norm",
    "expand": "pointwise_conv1",
    "project": "pointwise_conv2",
    "gamma": "gamma",
  },
  norm="layer_norm",
  head="classifier",
)


def _select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """Removes axes of length 1 from vectors that are stored like maps."""
  del config
  return {
    name: tensor.reshape(-1) if ".grn." in name else tensor
    for name, tensor in tensors.items()
  }, []


def _said(config: Fields, tensors: Tensors) -> dict[str, Any]:
  del tensors
  if config.get("hidden_act", TEXT, "gelu") != "gelu":
    raise config.refusal("hidden_act", "is not 'gelu', as in our ConvNeXts")
  epsilon = config.get("layer_norm_eps", NUMBER, 1e-12)
  if epsilon <= 0:
    raise config.refusal("layer_norm_eps", "is not positive")
  return {
    "image_size": config.side("image_size", 224),
    "layer_norm_eps": _EPSILON,
    "head_norm_eps": epsilon,
  }


def _said_of_dinov3(config: Fields, tensors: Tensors) -> dict[str, Any]:
  found = _said(config, tensors)
  epsilon = config.get("layer_norm_eps", NUMBER, _EPSILON)
  return found | {"layer_norm_eps": epsilon, "head_norm_eps": epsilon}


def _config_of_dinov3(model: schema.Model) -> dict[str, Any]:
  size = sizes.convnext(model)
  return {
    "num_channels": 3,
    "hidden_sizes": list(size.widths),
    "depths": list(size.depths),
    "layer_norm_eps": model.layer_norm_eps,
  }


def _config(model: schema.Model) -> dict[str, Any]:
  size = sizes.convnext(model)
  if model.layer_norm_eps != _EPSILON:
    raise Unwritable(
      "Hugging Face's ConvNeXt cannot have"
      f" model.layer_norm_eps={model.layer_norm_eps:g}"
    )
  kind = "ForImageClassification" if model.num_classes else "Model"
  return {
    "architectures": [_CLASSES[size.version] + kind],
    "num_channels": 3,
    "patch_size": size.stem_stride,
    "num_stages": len(size.depths),
    "hidden_sizes": list(size.widths),
    "depths": list(size.depths),
    "hidden_act": "gelu",
    "layer_norm_eps": model.head_norm_eps,
    "drop_path_rate": 0.0,
    "image_size": model.image_size,
  }


def _processor(model: schema.Model) -> dict[str, Any]:
  # ConvNeXt's own processor crops only below 384 pixels.
  side = {"height": model.image_size, "width": model.image_size}
  return {
    "image_processor_type": "BitImageProcessor",
    "size": side,
    "do_center_crop": False,
    "crop_size": side,
  }


def _scale(model: schema.Model, tensors: Tensors) -> Tensors:
  """Gives vectors the axes that they have in Hugging Face's network."""
  del model
  return {
    name: np.reshape(tensor, (1, 1, 1, -1)) if ".grn." in name else tensor
    for name, tensor in tensors.items()
  }


def _record(version: int, prefix: str) -> HuggingFace:
  return HuggingFace(
    writes=lambda model: model.name == "convnext" and model.version == version,
    prefix=prefix,
    normalize="imagenet",
    names=_NAMES,
    said=_said,
    config=_config,
    # Files with sizes other than 224 state it only in their processor.
    unchecked=frozenset({"hidden_act", "drop_path_rate", "image_size"}),
    processor=_processor,
    says_image_size=True,
    select=_select,
    scale=_scale,
  )


CONVNEXT = _record(1, "convnext.")
CONVNEXT_V2 = _record(2, "convnextv2.")
DINOV3 = dataclasses.replace(
  CONVNEXT,
  writes=lambda model: False,
  # The module that transformers keeps the stages in, in memory.
  prefix="model.",
  names=_NAMES_OF_DINOV3,
  said=_said_of_dinov3,
  config=_config_of_dinov3,
)
