"""Hugging Face's DINOv3, which has no classifier."""

from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.models.vit import sizes
from vit_jax.weights.fields import NUMBER, Fields
from vit_jax.weights.spellings.contract import Beside, HuggingFace
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.unwritable import Unwritable
from vit_jax.weights.spellings.vit import dinov3
from vit_jax.weights.spellings.vit.huggingface import (
  ACTIVATIONS,
  VIT,
  encoder_keys,
  not_expressible,
)

_BLOCK = "Transformer/encoderblock_{0}"
_ATTENTION = f"{_BLOCK}/MultiHeadDotProductAttention_0"
_LAYER = "layer.{0}"
_NAMES = Names(
  rows=(
    ("embedding", "embeddings.patch_embeddings"),
    ("cls", "embeddings.cls_token"),
    ("registers", "embeddings.register_tokens"),
    (f"{_BLOCK}/LayerNorm_0", f"{_LAYER}.norm1"),
    (f"{_ATTENTION}/query", f"{_LAYER}.attention.q_proj"),
    (f"{_ATTENTION}/key", f"{_LAYER}.attention.k_proj"),
    (f"{_ATTENTION}/value", f"{_LAYER}.attention.v_proj"),
    (f"{_ATTENTION}/out", f"{_LAYER}.attention.o_proj"),
    (f"{_BLOCK}/layer_scale_0", f"{_LAYER}.layer_scale1.lambda1"),
    (f"{_BLOCK}/LayerNorm_1", f"{_LAYER}.norm2"),
    (f"{_BLOCK}/MlpBlock_0/gate", f"{_LAYER}.mlp.gate_proj"),
    (f"{_BLOCK}/MlpBlock_0/Dense_0", f"{_LAYER}.mlp.up_proj"),
    (f"{_BLOCK}/MlpBlock_0/Dense_1", f"{_LAYER}.mlp.down_proj"),
    (f"{_BLOCK}/layer_scale_1", f"{_LAYER}.layer_scale2.lambda1"),
    ("Transformer/encoder_norm", "norm"),
  ),
  required=("embeddings.patch_embeddings.weight", "embeddings.cls_token"),
  by_halves=True,
)
_MASK_TOKEN = "embeddings.mask_token"
_REGISTERS = "embeddings.register_tokens"
_GATE = "layer.0.mlp.gate_proj.weight"
_SILU = "silu"


def _select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """Selects the tensors that affect outputs."""
  del config
  return {
    name: x
    for name, x in tensors.items()
    if name != _MASK_TOKEN and (x.size or name != _REGISTERS)
  }, []


def _beside(config: Fields, tensors: Tensors) -> Beside:
  """Returns the embedding of masked patches, if there is one."""
  del config
  token = tensors.get(_MASK_TOKEN)
  return {} if token is None else {"mask_token": token.reshape(1, 1, -1)}, None


def _said(config: Fields, tensors: Tensors) -> dict[str, Any]:
  values = dict(config.values)
  if _GATE in tensors:
    if values.get("hidden_act") not in (None, _SILU):
      raise config.refusal("hidden_act", f"is not {_SILU!r}, as in a SwiGLU")
    values["hidden_act"] = ACTIVATIONS["exact"]  # Without effect.
  base = config.get("rope_theta", NUMBER, dinov3.BASE)
  if base <= 0:
    raise config.refusal("rope_theta", "is not positive")
  return {
    **encoder_keys(Fields(config.path, values), 1e-5),
    **dinov3.POSITIONS,
    "rope_base": base,
  }


def _config(model: schema.Model) -> dict[str, Any]:
  size = sizes.vit(model)
  if model.num_classes is not None:
    raise Unwritable(
      "Hugging Face's DINOv3 has no classifier",
      "timm's form, a NAME.npz or a workdir can hold this network.",
    )
  if size.stem_blocks is not None:
    raise _refusal("the convolutional stem of a hybrid")
  for key, wanted in (
    ("pos_embedding", "none"),
    ("pool", "cls"),
    ("distillation", "none"),
    ("norm_after_pool", False),
    ("mlp_norm", False),
    ("pre_norm", False),
    ("patch_bias", True),
    ("representation_size", None),
  ):
    if getattr(model, key) != wanted:
      raise _refusal(f"model.{key}={getattr(model, key)!r}")
  has_gate = model.mlp == "swiglu"
  return {
    "architectures": ["DINOv3ViTModel"],
    "hidden_size": size.width,
    "num_hidden_layers": size.depth,
    "num_attention_heads": size.num_heads,
    "intermediate_size": size.mlp_dim,
    "use_gated_mlp": has_gate,
    "hidden_act": _SILU if has_gate else ACTIVATIONS[model.gelu],
    "layer_norm_eps": model.layer_norm_eps,
    "image_size": model.image_size,
    "patch_size": size.patch_size,
    "num_channels": 3,
    "num_register_tokens": model.registers,
    "rope_theta": model.rope_base,
    "query_bias": model.qkv_bias,
    "key_bias": model.qkv_bias and model.key_bias,
    "value_bias": model.qkv_bias,
    "attention_dropout": 0.0,
    "drop_path_rate": 0.0,
  }


def _refusal(what: str) -> Unwritable:
  return not_expressible(what, "DINOv3")


def _complete(model: schema.Model, tensors: Tensors) -> Tensors:
  """Adds what Hugging Face's network has in addition, without effect."""
  size = sizes.vit(model)
  found = dict(tensors)
  found[_MASK_TOKEN] = np.zeros((1, 1, size.width), np.float32)
  found.setdefault(_REGISTERS, np.zeros((1, 0, size.width), np.float32))
  for layer in range(size.depth):
    for branch in (1, 2):
      factors = f"{_LAYER.format(layer)}.layer_scale{branch}.lambda1"
      found.setdefault(factors, np.ones(size.width, np.float32))
  return found


HUGGINGFACE = HuggingFace(
  writes=lambda model: (
    model.name == "vit" and model.rope and model.rope_coordinates == "unit"
  ),
  # The module that transformers keeps the layers in, in memory.
  prefix="model.",
  normalize="imagenet",
  names=_NAMES,
  said=_said,
  config=_config,
  unchecked=frozenset({"hidden_act", "attention_dropout", "drop_path_rate"}),
  processor=VIT.processor,
  select=_select,
  beside=_beside,
  scale=_complete,
)
