"""Hugging Face's BiT."""

from typing import Any

from vit_jax.config import schema
from vit_jax.models.resnet import sizes
from vit_jax.weights.fields import COUNT, COUNTS, Fields
from vit_jax.weights.spellings.contract import HuggingFace
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.resnet import torch


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
  scale=torch.with_torchs_constants,
)
