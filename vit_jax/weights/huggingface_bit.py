"""Hugging Face's BiT: its config.json and its names."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.config import schema, sizes
from vit_jax.errors import UserError
from vit_jax.weights import torch_resnet
from vit_jax.weights.fields import Fields
from vit_jax.weights.torch_layout import Pair

_logger = logging.getLogger(__name__)

Tensors = Mapping[str, np.ndarray]

NAMES = torch_resnet.Names(
  root="embedder.convolution",
  unit="encoder.stages.{}.layers.{}",
  head="classifier.1",
  head_is_conv=False,
)

# Keys of config.json and the one value each that our ResNets compute.
_ONLY = {
  "layer_type": "preactivation",
  "global_padding": None,
  "embedding_dynamic_padding": False,
  "hidden_act": "relu",
  "num_groups": sizes.NUM_GROUPS,
  "num_channels": 3,
  "width_factor": 1,
}


def file_name(name: str) -> str:
  """Names have always been the same."""
  return name


def select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """All tensors, as features depend on all of them; and no notes."""
  del config
  return tensors, []


def architecture(config: Fields, tensors: Tensors) -> schema.Model:
  """The network that config.json describes, for images of 224 pixels.

  Raises:
    UserError: it is not one of ours; naming the key.
  """
  for name, only in _ONLY.items():
    if config.values.get(name, only) != only:
      raise config.refusal(name, f"is not {only!r}, as in our ResNets")
  width = config.integer("embedding_size", sizes.ROOT_WIDTH)
  blocks = config.integers("depths", (3, 4, 6, 3))
  channels = config.integers("hidden_sizes", (256, 512, 1024, 2048))
  wanted = tuple(4 * width * 2**stage for stage in range(len(blocks)))
  if channels != wanted:
    raise config.refusal(
      "hidden_sizes",
      f"are not {list(wanted)}, 4, 8, ... times embedding_size for as many"
      " stages as depths has",
    )
  size = sizes.ResNetSize(blocks, width)
  stride = 4 * 2 ** (len(blocks) - 1)
  if config.integer("output_stride", 32) < stride:
    raise config.refusal(
      "output_stride", f"is not {stride}: our ResNets do not dilate"
    )
  head = tensors.get(f"{NAMES.head}.weight")
  if head is not None and head.ndim != 2:
    raise UserError(f"{config.path}: '{NAMES.head}.weight' is no matrix.")
  return schema.Model(
    **sizes.resnet_keys(size),
    standardization="torch",
    num_classes=None if head is None else max(1, len(head)),
  )


def pairs(model: schema.Model) -> list[Pair]:
  return torch_resnet.bit_pairs(sizes.resnet(model), model.num_classes, NAMES)


def settings(model: schema.Model) -> dict[str, Any]:
  """The config.json of `architecture`, without the names of classes."""
  size = sizes.resnet(model)
  widths = [4 * size.width * 2**stage for stage in range(len(size.blocks))]
  has_head = model.num_classes is not None
  return {
    "architectures": ["BitForImageClassification" if has_head else "BitModel"],
    "model_type": "bit",
    "depths": list(size.blocks),
    "embedding_size": size.width,
    "hidden_sizes": widths,
    "output_stride": max(32, 4 * 2 ** (len(size.blocks) - 1)),
    **_ONLY,
  }


def processor(model: schema.Model) -> dict[str, Any]:
  """preprocessor_config.json, without the statistics of pixels."""
  side = {"height": model.image_size, "width": model.image_size}
  return {
    "image_processor_type": "BitImageProcessor",
    "size": side,
    "do_center_crop": False,
    "crop_size": side,
  }


def scaled(model: schema.Model, tensors: Tensors) -> Tensors:
  """Tensors with which Hugging Face's BiT computes what ours does.

  Both divide standardised kernels by sqrt(variance + eps), but eps is 1e-10 in
  the original and 1e-8 here: kernels ten times as large make up for it, and
  for nothing else, as they are standardised.
  """
  if model.standardization == "torch":
    return tensors
  _logger.warning(
    "Convolutions are written ten times as large, which evens out what"
    " Hugging Face's BiT adds to their variance: outputs are the same, but"
    " training goes on with smaller relative updates."
  )
  return {
    name: tensor * np.float32(10) if tensor.ndim == 4 else tensor
    for name, tensor in tensors.items()
  }
