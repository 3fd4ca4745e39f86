"""Hugging Face's ViT, DeiT and ViT-MAE.

Files use the names that transformers has always written; the names that its
newer modules use internally are understood as well.
"""

import dataclasses
import logging
import re
from typing import Any

from vit_jax.config import schema
from vit_jax.models.vit import sizes
from vit_jax.weights import position_embeddings
from vit_jax.weights.fields import COUNT, NUMBER, TEXT, Fields
from vit_jax.weights.spellings.contract import HuggingFace
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.unwritable import Unwritable
from vit_jax.weights.spellings.vit import key_biases, mae

_logger = logging.getLogger(__name__)

# hidden_act of config.json -> config.model.gelu.
_GELUS = {
  "gelu": "exact",
  "gelu_python": "exact",
  "gelu_pytorch_tanh": "tanh",
  "gelu_python_tanh": "tanh",
  "gelu_accurate": "tanh",
  "gelu_new": "tanh",
  "gelu_fast": "tanh",
  "quick_gelu": "quick",
}
ACTIVATIONS = {
  "exact": "gelu",
  "tanh": "gelu_pytorch_tanh",
  "quick": "quick_gelu",
}

_DISTILLED_HEAD = "distillation_classifier"
_BLOCK = "Transformer/encoderblock_{0}"
_ATTENTION = f"{_BLOCK}/MultiHeadDotProductAttention_0"
_LAYER = "encoder.layer.{0}"
_NAMES = Names(
  rows=(
    ("embedding", "embeddings.patch_embeddings.projection"),
    ("cls", "embeddings.cls_token"),
    ("dist", "embeddings.distillation_token"),
    (
      "Transformer/posembed_input/pos_embedding",
      "embeddings.position_embeddings",
    ),
    (f"{_BLOCK}/LayerNorm_0", f"{_LAYER}.layernorm_before"),
    (f"{_ATTENTION}/query", f"{_LAYER}.attention.attention.query"),
    (f"{_ATTENTION}/key", f"{_LAYER}.attention.attention.key"),
    (f"{_ATTENTION}/value", f"{_LAYER}.attention.attention.value"),
    (f"{_ATTENTION}/out", f"{_LAYER}.attention.output.dense"),
    (f"{_BLOCK}/LayerNorm_1", f"{_LAYER}.layernorm_after"),
    (f"{_BLOCK}/MlpBlock_0/Dense_0", f"{_LAYER}.intermediate.dense"),
    (f"{_BLOCK}/MlpBlock_0/Dense_1", f"{_LAYER}.output.dense"),
    ("Transformer/encoder_norm", "layernorm"),
    ("pre_logits", "pooler.dense"),
    ("head", "classifier"),
    ("head", "cls_classifier"),
    ("head_dist", _DISTILLED_HEAD),
  ),
  required=(
    "embeddings.patch_embeddings.projection.weight",
    "embeddings.cls_token",
    "embeddings.position_embeddings",
  ),
)

# Patterns of the newer modules' names, and the names in files.
_NEWER = (
  (re.compile(r"^layers\.(\d+)\."), r"encoder.layer.\1."),
  (re.compile(r"\.attention\.q_proj\."), ".attention.attention.query."),
  (re.compile(r"\.attention\.k_proj\."), ".attention.attention.key."),
  (re.compile(r"\.attention\.v_proj\."), ".attention.attention.value."),
  (re.compile(r"\.attention\.o_proj\."), ".attention.output.dense."),
  (re.compile(r"\.mlp\.fc1\."), ".intermediate.dense."),
  (re.compile(r"\.mlp\.fc2\."), ".output.dense."),
)
_DISTILLATION = "embeddings.distillation_token"
_LAYER_SCALE = re.compile(r"Transformer/encoderblock_(\d+)/layer_scale_([01])")
_SCALED = {"0": "attention.output.dense", "1": "output.dense"}
_MASK_TOKEN = "embeddings.mask_token"


def _file_name(name: str) -> str:
  for pattern, replacement in _NEWER:
    name = pattern.sub(replacement, name)
  return name


def _select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """Selects the tensors that affect outputs; adds notes about the others."""
  del config
  notes = []
  unused = {name for name in tensors if name.startswith("decoder.")}
  if unused:
    notes.append(
      f"The decoder ({len(unused)} tensors) is not part of the network;"
      " vit_jax.load(path, pretraining=True) returns it as well."
    )
  if _MASK_TOKEN in tensors:
    notes.append(f"The mask token ({_MASK_TOKEN}) is left out.")
    unused.add(_MASK_TOKEN)
  # transformers creates no pooler if there is a classifier.
  reason = None
  if "classifier.weight" in tensors:
    reason = "the classifier does not use"
  elif _DISTILLATION in tensors:
    reason = "our networks with a distillation token do not have"
  if reason is not None and "pooler.dense.weight" in tensors:
    notes.append(f"The pooler, which {reason}, is left out.")
    unused.update(name for name in tensors if name.startswith("pooler."))
  return {n: x for n, x in tensors.items() if n not in unused}, notes


def _said(config: Fields, tensors: Tensors) -> dict[str, Any]:
  return {
    **encoder_keys(config, 1e-12),
    "pos_embedding_resize": "bicubic",
    # Without a head, Hugging Face's DeiT pools only the class token.
    "distillation": "token" if _DISTILLATION in tensors else "none",
  }


def encoder_keys(config: Fields, layer_norm_eps: float) -> dict[str, Any]:
  """Returns keys of `schema.Model` that config.json states for a ViT.

  Args:
    config: Config of a network that pools its class token.
    layer_norm_eps: The family's default, if config.json has none.

  Raises:
    UserError: A value is not supported by our networks.
  """
  width = config.get("hidden_size", COUNT, 768)
  num_heads = config.get("num_attention_heads", COUNT, 12)
  if width % num_heads:
    raise config.refusal(
      "num_attention_heads", f"does not divide hidden_size, {width}"
    )
  if config.get("head_dim", COUNT, width // num_heads) != width // num_heads:
    raise config.refusal(
      "head_dim",
      f"is not hidden_size / num_attention_heads, {width // num_heads}, as in"
      " our models",
    )
  return {
    "num_heads": num_heads,
    "image_size": config.side("image_size", 224),
    "pool": "cls",
    **layer_keys(config, layer_norm_eps, "gelu"),
  }


def layer_keys(config: Fields, eps: float, act: str) -> dict[str, Any]:
  """Returns the epsilon of the norms and the form of the GELU.

  Args:
    config: Config of a Transformer.
    eps: The family's default of layer_norm_eps.
    act: The family's default of hidden_act.

  Raises:
    UserError: A value is not supported by our networks.
  """
  eps = config.get("layer_norm_eps", NUMBER, eps)
  if eps <= 0:
    raise config.refusal("layer_norm_eps", "is not positive")
  activation = config.get("hidden_act", TEXT, act)
  if activation not in _GELUS:
    raise config.refusal(
      "hidden_act", f"is not an activation of our models: {', '.join(_GELUS)}"
    )
  return {"gelu": _GELUS[activation], "layer_norm_eps": eps}


def _config(model: schema.Model) -> dict[str, Any]:
  size = sizes.vit(model)
  representation = sizes.representation_size(model)
  has_head = model.num_classes is not None
  positions = (model.pos_embedding, model.pos_embedding_at)
  if model.rope:
    raise not_expressible("model.rope=True")
  if size.stem_blocks is not None:
    raise not_expressible("the convolutional stem of a hybrid")
  if not sizes.has_cls(model.pool, model.cls_token) or model.pool != "cls":
    raise not_expressible(f"model.pool='{model.pool}'")
  for key, wanted in (
    ("norm_after_pool", False),
    ("pre_norm", False),
    ("mlp_norm", False),
    ("patch_bias", True),
  ):
    if getattr(model, key) != wanted:
      raise not_expressible(f"model.{key}={getattr(model, key)!r}")
  if model.registers or model.mlp != "gelu":
    raise not_expressible(
      f"model.registers={model.registers} with model.mlp='{model.mlp}'; without"
      " the classifier, its DINOv2 can"
    )
  if positions != ("learned_1d", "stem"):
    raise not_expressible(
      f"model.pos_embedding='{positions[0]}' at '{positions[1]}'"
    )
  if has_head and representation is not None:
    raise not_expressible(
      "a hidden layer (pre_logits) before the classifier; without the"
      " classifier, it can"
    )
  found = {
    "architectures": ["ViTForImageClassification" if has_head else "ViTModel"],
    "hidden_size": size.width,
    "num_hidden_layers": size.depth,
    "num_attention_heads": size.num_heads,
    "intermediate_size": size.mlp_dim,
    "hidden_act": ACTIVATIONS[model.gelu],
    "layer_norm_eps": model.layer_norm_eps,
    "image_size": model.image_size,
    "patch_size": size.patch_size,
    "num_channels": 3,
    "qkv_bias": model.qkv_bias,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    # Size of the prediction for a masked patch, which is not used here.
    "encoder_stride": size.patch_size,
  }
  if representation is not None:
    found |= {"pooler_output_size": representation, "pooler_act": "tanh"}
  return found


def _deit_config(model: schema.Model) -> dict[str, Any]:
  found = _config(model)
  found["architectures"] = ["DeiTModel"]
  if model.num_classes is not None:
    with_teacher = "WithTeacher" * (model.distillation == "average")
    found["architectures"] = [f"DeiTForImageClassification{with_teacher}"]
  elif model.distillation == "average":
    raise not_expressible(
      "the mean of class and distillation token without their heads", "DeiT"
    )
  return found


def _scale(model: schema.Model, tensors: Tensors) -> Tensors:
  """Folds parts that Hugging Face's network lacks into parts it has."""
  name = "embeddings.position_embeddings"
  num_prefix = sizes.num_prefix(model)
  table = position_embeddings.with_prefix_rows(tensors[name], num_prefix)
  tensors = key_biases.completed({**tensors, name: table})
  tensors = _without_layer_scale(tensors)
  if f"{_DISTILLED_HEAD}.weight" not in tensors:
    return tensors
  return {
    re.sub(r"^classifier\.", "cls_classifier.", name): tensor
    for name, tensor in tensors.items()
  }


def _without_layer_scale(tensors: Tensors) -> Tensors:
  """Folds LayerScale factors into the preceding projections."""
  found = dict(tensors)
  for name in tensors:
    if match := _LAYER_SCALE.fullmatch(name):
      factors = found.pop(name)
      projection = f"{_LAYER.format(match[1])}.{_SCALED[match[2]]}"
      weight, bias = f"{projection}.weight", f"{projection}.bias"
      found[weight] = found[weight] * factors[:, None]
      found[bias] = found[bias] * factors
  if len(found) < len(tensors):
    _logger.warning(
      "The factors of LayerScale, which Hugging Face's ViT does not have, are"
      " multiplied into the projections before them: outputs are the same."
    )
  return found


def not_expressible(what: str, kind: str = "ViT") -> Unwritable:
  """Returns the error that a network cannot be written.

  Args:
    what: Part of our network that is missing from Hugging Face's.
    kind: Name of Hugging Face's network.
  """
  return Unwritable(f"Hugging Face's {kind} cannot have {what}")


def _processor(model: schema.Model) -> dict[str, Any]:
  side = {"height": model.image_size, "width": model.image_size}
  return {"image_processor_type": "ViTImageProcessor", "size": side}


VIT = HuggingFace(
  writes=lambda model: model.name == "vit" and model.distillation == "none",
  prefix="vit.",
  normalize="minus_one_to_one",
  names=_NAMES,
  said=_said,
  config=_config,
  unchecked=frozenset(
    {
      "hidden_act",
      "hidden_dropout_prob",
      "attention_probs_dropout_prob",
      "encoder_stride",
    }
  ),
  processor=_processor,
  file_name=_file_name,
  select=_select,
  beside=mae.of_huggingface,
  scale=_scale,
)
VIT_MAE = dataclasses.replace(VIT, normalize="imagenet")
DEIT = dataclasses.replace(
  VIT,
  writes=lambda model: model.name == "vit" and model.distillation != "none",
  prefix="deit.",
  config=_deit_config,
)
