"""Hugging Face's BiT."""

import logging
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.models.resnet import sizes
from vit_jax.weights.fields import COUNT, COUNTS, Fields
from vit_jax.weights.spellings.contract import HuggingFace
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.resnet import torch

_logger = logging.getLogger(__name__)


def _said(config: Fields, tensors: Tensors) -> dict[str, Any]:
  del tensors
  blocks = config.get("depths", COUNTS, (3, 4, 6, 3))
  stride = 4 * 2 ** (len(blocks) - 1)
  if config.get("output_stride", COUNT, 32) < stride:
    raise config.refusal(
      "output_stride", f"is not {stride}: our ResNets do not dilate"
    )
  return {"standardization": "torch"}


def _config(model: schema.Model) -> dict[str, Any]:
  size = sizes.resnet(model)
  has_head = model.num_classes is not None
  return {
    "architectures": ["BitForImageClassification" if has_head else "BitModel"],
    "depths": list(size.blocks),
    "embedding_size": size.width,
    "hidden_sizes": [4 * size.width * 2**i for i in range(len(size.blocks))],
    "output_stride": max(32, 4 * 2 ** (len(size.blocks) - 1)),
    "layer_type": "preactivation",
    "global_padding": None,
    "embedding_dynamic_padding": False,
    "hidden_act": "relu",
    "num_groups": sizes.NUM_GROUPS,
    "num_channels": 3,
    "width_factor": 1,
  }


def _processor(model: schema.Model) -> dict[str, Any]:
  side = {"height": model.image_size, "width": model.image_size}
  return {
    "image_processor_type": "BitImageProcessor",
    "size": side,
    "do_center_crop": False,
    "crop_size": side,
  }


def _scale(model: schema.Model, tensors: Tensors) -> Tensors:
  """Makes up for another epsilon of the standardised convolutions.

  Both divide kernels by sqrt(variance + eps), but eps is 1e-10 in the original
  and 1e-8 here: kernels ten times as large give the same quotient, and change
  nothing else, as they are standardised.
  """
  if model.standardization == "torch":
    return tensors
  _logger.warning(
    "Convolutions are written ten times as large, which evens out what"
    " Hugging Face's BiT adds to their variance: outputs are the same, but"
    " further training has smaller relative updates."
  )
  return {
    name: tensor * np.float32(10) if tensor.ndim == 4 else tensor
    for name, tensor in tensors.items()
  }


BIT = HuggingFace(
  writes=lambda model: model.name == "resnet",
  prefix="bit.",
  normalize="0.48145466,0.4578275,0.40821073/0.26862954,0.26130258,0.27577711",
  names=torch.names(
    root="embedder.convolution",
    unit="encoder.stages.{0}.layers.{0}",
    head="classifier.1",
  ),
  said=_said,
  config=_config,
  unchecked=frozenset({"output_stride"}),
  processor=_processor,
  says_image_size=True,
  scale=_scale,
)
