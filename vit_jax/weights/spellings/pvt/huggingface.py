"""Hugging Face's PvtV2."""

from typing import Any

from vit_jax.config import schema
from vit_jax.models.pvt import sizes
from vit_jax.weights.fields import FLAG, NUMBER, NUMBERS, TEXT, Fields
from vit_jax.weights.spellings import zero_biases
from vit_jax.weights.spellings.contract import HuggingFace
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.pvt import torch
from vit_jax.weights.spellings.unwritable import Unwritable

_PARTS = {
  "attention_norm": "layer_norm_1",
  "reduced_attention/queries": "attention.query",
  "reduced_attention/keys": "attention.key",
  "reduced_attention/values": "attention.value",
  "reduced_attention/output": "attention.proj",
  "reduced_attention/reduce": "attention.spatial_reduction",
  "reduced_attention/reduce_norm": "attention.layer_norm",
  "mlp_norm": "layer_norm_2",
  "mlp/expand": "mlp.dense1",
  "mlp/depthwise": "mlp.dwconv.dwconv",
  "mlp/project": "mlp.dense2",
}
_NAMES = torch.names(
  embed=(
    (
      "stage{1}/embed",
      "encoder.layers.{0}.patch_embedding.proj",
      "encoder.layers.{0}.patch_embedding.layer_norm",
    ),
  ),
  block="encoder.layers.{0}.blocks.{0}",
  parts=_PARTS,
  norm="encoder.layers.{0}.layer_norm",
  head="classifier",
)


def _said(config: Fields, tensors: Tensors) -> dict[str, Any]:
  del tensors
  if config.get("hidden_act", TEXT, "gelu") != "gelu":
    raise config.refusal("hidden_act", "is not 'gelu', as in our PVTs")
  epsilon = config.get("layer_norm_eps", NUMBER, 1e-6)
  if epsilon <= 0:
    raise config.refusal("layer_norm_eps", "is not positive")
  heads = config.get("num_attention_heads", NUMBERS, list(sizes.HEADS))
  said: dict[str, Any] = {
    "image_size": config.side("image_size", 224),
    "num_heads": tuple(map(int, heads)),
    "layer_norm_eps": epsilon,
    "map_norm_eps": epsilon,
  }
  if config.get("linear_attention", FLAG, False):
    sides = config.get("sr_ratios", NUMBERS, list(sizes.REDUCTIONS))
    said["reductions"] = tuple(map(int, sides))
  return said


def _config(model: schema.Model) -> dict[str, Any]:
  if model.layer_norm_eps != model.map_norm_eps:
    raise Unwritable(
      "Hugging Face's PVT has one number for all norms, not"
      f" model.layer_norm_eps={model.layer_norm_eps:g} and"
      f" model.map_norm_eps={model.map_norm_eps:g}",
      "Train with both equal, or keep the network as a NAME.npz or a workdir.",
    )
  size = sizes.pvt(model)
  num_stages = len(size.depths)
  kind = "ForImageClassification" if model.num_classes else "Model"
  return {
    "architectures": ["PvtV2" + kind],
    "image_size": model.image_size,
    "num_channels": 3,
    "num_encoder_blocks": num_stages,
    "depths": list(size.depths),
    "sr_ratios": list(size.reductions),
    "hidden_sizes": list(size.widths),
    "patch_sizes": [sizes.STEM_KERNEL] + [sizes.KERNEL] * (num_stages - 1),
    "strides": [sizes.STEM_STRIDE] + [sizes.STRIDE] * (num_stages - 1),
    "num_attention_heads": list(size.num_heads),
    "mlp_ratios": list(size.expansions),
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "drop_path_rate": 0.0,
    "layer_norm_eps": model.layer_norm_eps,
    "qkv_bias": True,
    "linear_attention": size.linear_attention,
  }


def _processor(model: schema.Model) -> dict[str, Any]:
  side = {"height": model.image_size, "width": model.image_size}
  return {"image_processor_type": "PvtImageProcessor", "size": side}


def _select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  found = torch.with_biases(tensors, _PARTS)
  if len(found) > len(tensors):
    zero_biases.check(config)
  return found, []


PVT_V2 = HuggingFace(
  writes=lambda model: model.name == "pvt",
  prefix="pvt_v2.",
  normalize="imagenet",
  names=_NAMES,
  said=_said,
  config=_config,
  unchecked=frozenset(
    {
      "hidden_act",
      "qkv_bias",
      "hidden_dropout_prob",
      "attention_probs_dropout_prob",
      "drop_path_rate",
    }
  ),
  processor=_processor,
  select=_select,
)
