"""Hugging Face's DINOv2, with and without registers.

Files use the names that transformers has always written; the names that its
newer modules use internally are understood as well.
"""

import dataclasses
import re
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes
from vit_jax.weights import position_embeddings
from vit_jax.weights.fields import TEXT, Fields
from vit_jax.weights.spellings.contract import Beside, HuggingFace
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.vit import key_biases, swiglu
from vit_jax.weights.spellings.vit.huggingface import (
  ACTIVATIONS,
  VIT,
  encoder_keys,
  not_expressible,
)

_REGISTERS = "embeddings.register_tokens"
_WITH_REGISTERS = "dinov2_with_registers"
_BLOCK = "Transformer/encoderblock_{0}"
_ATTENTION = f"{_BLOCK}/MultiHeadDotProductAttention_0"
_LAYER = "encoder.layer.{0}"
_NAMES = Names(
  rows=(
    ("embedding", "embeddings.patch_embeddings.projection"),
    ("cls", "embeddings.cls_token"),
    ("registers", _REGISTERS),
    (
      "Transformer/posembed_input/pos_embedding",
      "embeddings.position_embeddings",
    ),
    (f"{_BLOCK}/LayerNorm_0", f"{_LAYER}.norm1"),
    (f"{_ATTENTION}/query", f"{_LAYER}.attention.attention.query"),
    (f"{_ATTENTION}/key", f"{_LAYER}.attention.attention.key"),
    (f"{_ATTENTION}/value", f"{_LAYER}.attention.attention.value"),
    (f"{_ATTENTION}/out", f"{_LAYER}.attention.output.dense"),
    (f"{_BLOCK}/layer_scale_0", f"{_LAYER}.layer_scale1.lambda1"),
    (f"{_BLOCK}/LayerNorm_1", f"{_LAYER}.norm2"),
    (f"{_BLOCK}/MlpBlock_0/gate", f"{_LAYER}.mlp.gate_proj"),
    (f"{_BLOCK}/MlpBlock_0/Dense_0", f"{_LAYER}.mlp.fc1"),
    (f"{_BLOCK}/MlpBlock_0/Dense_1", f"{_LAYER}.mlp.fc2"),
    (f"{_BLOCK}/layer_scale_1", f"{_LAYER}.layer_scale2.lambda1"),
    ("Transformer/encoder_norm", "layernorm"),
    ("head", "classifier"),
  ),
  required=(
    "embeddings.patch_embeddings.projection.weight",
    "embeddings.cls_token",
    "embeddings.position_embeddings",
  ),
)
# Patterns of names not in the table, and the names in the table.
_OTHERS = (
  (re.compile(r"\.attention\.q_proj\."), ".attention.attention.query."),
  (re.compile(r"\.attention\.k_proj\."), ".attention.attention.key."),
  (re.compile(r"\.attention\.v_proj\."), ".attention.attention.value."),
  (re.compile(r"\.attention\.o_proj\."), ".attention.output.dense."),
  (re.compile(r"\.mlp\.up_proj\."), ".mlp.fc1."),
  (re.compile(r"\.mlp\.(weights_out|down_proj)\."), ".mlp.fc2."),
)
_SWIGLU = (".mlp.weights_in", ".mlp.gate_proj", ".mlp.fc1")
_MASK_TOKEN = "embeddings.mask_token"
# MLP widths that `mlp_ratio`, an integer, can express.
_RATIOS = range(1, 17)


def _file_name(name: str) -> str:
  for pattern, replacement in _OTHERS:
    name = pattern.sub(replacement, name)
  return name


def _select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """Selects the tensors that affect outputs and splits SwiGLUs."""
  found = {
    name: x
    for name, x in tensors.items()
    if name != _MASK_TOKEN and (x.size or name != _REGISTERS)
  }
  return swiglu.taken_apart(found, *_SWIGLU, config.path), []


def _beside(config: Fields, tensors: Tensors) -> Beside:
  """Returns the embedding of masked patches, if there is one."""
  del config
  token = tensors.get(_MASK_TOKEN)
  return {} if token is None else {"mask_token": token.reshape(1, 1, -1)}, None


def _said(config: Fields, tensors: Tensors) -> dict[str, Any]:
  is_antialiased = config.get("model_type", TEXT) == _WITH_REGISTERS
  resize = "bicubic_antialias" if is_antialiased else "bicubic"
  pool = "cls_gap" if "classifier.weight" in tensors else "cls"
  return {
    **encoder_keys(config, 1e-6),
    "pos_embedding_resize": resize,
    "pool": pool,
  }


def _hidden(width: int, ratio: int, mlp: str) -> int:
  """Counts hidden units like `SwiGLUFFNFused` in dinov2 and Hugging Face."""
  hidden = width * ratio
  return (hidden * 2 // 3 + 7) // 8 * 8 if mlp == "swiglu" else hidden


def _ratio(model: schema.Model) -> int | None:
  """Returns the `mlp_ratio` that gives the model's MLP width, or None."""
  size = sizes.vit(model)
  for ratio in _RATIOS:
    if _hidden(size.width, ratio, model.mlp) == size.mlp_dim:
      return ratio
  return None


def _writes(model: schema.Model) -> bool:
  """Tells whether Hugging Face's ViT cannot express a network."""
  if model.name != "vit":
    return False
  if model.num_classes is not None:
    return model.pool == "cls_gap"
  if model.registers or model.mlp == "swiglu":
    return True
  return model.layer_scale is not None and _ratio(model) is not None


def _config(model: schema.Model) -> dict[str, Any]:
  size = sizes.vit(model)
  positions = (model.pos_embedding, model.pos_embedding_at)
  if model.rope:
    raise _refusal("model.rope=True")
  if size.stem_blocks is not None:
    raise _refusal("the convolutional stem of a hybrid")
  has_head = model.num_classes is not None
  if model.pool != ("cls_gap" if has_head else "cls"):
    raise _refusal(f"model.pool='{model.pool}'")
  if model.distillation != "none":
    raise _refusal(f"model.distillation='{model.distillation}'")
  if positions != ("learned_1d", "stem"):
    raise _refusal(f"model.pos_embedding='{positions[0]}' at '{positions[1]}'")
  for key, wanted in (
    ("norm_after_pool", False),
    ("mlp_norm", False),
    ("pre_norm", False),
    ("patch_bias", True),
    ("representation_size", None),
  ):
    if getattr(model, key) != wanted:
      raise _refusal(f"model.{key}={getattr(model, key)!r}")
  ratio = _ratio(model)
  if ratio is None:
    raise _refusal(
      f"model.mlp_dim={size.mlp_dim}, which is not of a whole mlp_ratio of the"
      f" width {size.width}"
    )
  registers = {"num_register_tokens": model.registers}
  with_registers = "WithRegisters" * bool(model.registers)
  kind = "ForImageClassification" if has_head else "Model"
  return {
    "architectures": [f"Dinov2{with_registers}{kind}"],
    "hidden_size": size.width,
    "num_hidden_layers": size.depth,
    "num_attention_heads": size.num_heads,
    "mlp_ratio": ratio,
    "use_swiglu_ffn": model.mlp == "swiglu",
    "hidden_act": ACTIVATIONS[model.gelu],
    "layer_norm_eps": model.layer_norm_eps,
    "image_size": model.image_size,
    "patch_size": size.patch_size,
    "num_channels": 3,
    "qkv_bias": model.qkv_bias,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "drop_path_rate": 0.0,
    **(registers if model.registers else {"use_mask_token": True}),
  }


def _refusal(what: str) -> UserError:
  return not_expressible(what, "DINOv2")


def _complete(model: schema.Model, tensors: Tensors) -> Tensors:
  """Adds what Hugging Face's network has in addition, without effect."""
  width = sizes.vit(model).width
  name = "embeddings.position_embeddings"
  found = dict(swiglu.put_together(key_biases.completed(tensors), *_SWIGLU))
  found[name] = position_embeddings.with_prefix_rows(found[name])
  found[_MASK_TOKEN] = np.zeros((1, width), np.float32)
  for layer in range(sizes.vit(model).depth):
    for branch in (1, 2):
      factors = f"{_LAYER.format(layer)}.layer_scale{branch}.lambda1"
      found.setdefault(factors, np.ones(width, np.float32))
  if model.mlp != "swiglu":
    return found
  return {
    re.sub(r"\.mlp\.fc2\.", ".mlp.weights_out.", name): tensor
    for name, tensor in found.items()
  }


DINOV2 = HuggingFace(
  writes=lambda model: _writes(model) and not model.registers,
  prefix="dinov2.",
  normalize="imagenet",
  names=_NAMES,
  said=_said,
  config=_config,
  unchecked=frozenset(
    {
      "hidden_act",
      "hidden_dropout_prob",
      "attention_probs_dropout_prob",
      "drop_path_rate",
      "use_mask_token",
    }
  ),
  processor=VIT.processor,
  file_name=_file_name,
  select=_select,
  beside=_beside,
  scale=_complete,
)
DINOV2_WITH_REGISTERS = dataclasses.replace(
  DINOV2,
  writes=lambda model: _writes(model) and model.registers > 0,
  prefix=f"{_WITH_REGISTERS}.",
)
