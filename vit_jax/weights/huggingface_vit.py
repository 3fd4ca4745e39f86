"""Hugging Face's ViT, DeiT and ViT-MAE: their config.json and their names.

The names in files are those that transformers has always written; those that
its newer modules have inside are understood as well.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.config import schema, sizes
from vit_jax.errors import UserError
from vit_jax.weights import torch_vit
from vit_jax.weights.fields import Fields
from vit_jax.weights.torch_layout import Pair

Tensors = Mapping[str, np.ndarray]

# hidden_act of config.json -> config.model.gelu.
GELUS = {
  "gelu": "exact",
  "gelu_python": "exact",
  "gelu_pytorch_tanh": "tanh",
  "gelu_new": "tanh",
  "gelu_fast": "tanh",
}

NAMES = torch_vit.Names(
  embedding="embeddings.patch_embeddings.projection",
  cls="embeddings.cls_token",
  pos_embedding="embeddings.position_embeddings",
  block="encoder.layer.{}",
  norm_0="layernorm_before",
  attention=torch_vit.Attention(
    query="attention.attention.query",
    key="attention.attention.key",
    value="attention.attention.value",
    out="attention.output.dense",
  ),
  norm_1="layernorm_after",
  dense_0="intermediate.dense",
  dense_1="output.dense",
  last_norm="layernorm",
  pre_logits="pooler.dense",
  head="classifier",
)

# Patterns of the newer modules' names, and the files' names.
_NEWER = (
  (re.compile(r"^layers\.(\d+)\."), r"encoder.layer.\1."),
  (re.compile(r"\.attention\.q_proj\."), ".attention.attention.query."),
  (re.compile(r"\.attention\.k_proj\."), ".attention.attention.key."),
  (re.compile(r"\.attention\.v_proj\."), ".attention.attention.value."),
  (re.compile(r"\.attention\.o_proj\."), ".attention.output.dense."),
  (re.compile(r"\.mlp\.fc1\."), ".intermediate.dense."),
  (re.compile(r"\.mlp\.fc2\."), ".output.dense."),
)

_ACTIVATIONS = {"exact": "gelu", "tanh": "gelu_pytorch_tanh"}

_DISTILLATION = "embeddings.distillation_token"
_MASK_TOKEN = "embeddings.mask_token"
_DECODER = "decoder."
_POOLER = "pooler.dense.weight"
_HEAD = "classifier.weight"


def file_name(name: str) -> str:
  """The name in files of a tensor of the encoder, be it newer or not."""
  for pattern, replacement in _NEWER:
    name = pattern.sub(replacement, name)
  return name


def select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """The tensors that features and logits depend on, and what is left out.

  Raises:
    UserError: the model was distilled.
  """
  if _DISTILLATION in tensors:
    raise UserError(
      f"{config.path} is of a distilled DeiT, whose second token (distillation"
      "_token) our models do not have. The DeiTs without distillation, such as"
      " facebook/deit-base-patch16-224, can be loaded."
    )
  kept = dict(tensors)
  notes = []
  decoder = [name for name in kept if name.startswith(_DECODER)]
  if decoder:
    notes.append(f"The decoder ({len(decoder)} tensors) is left out.")
  unused = [*decoder, _MASK_TOKEN]
  if _MASK_TOKEN in kept:
    notes.append(f"The mask token ({_MASK_TOKEN}) is left out.")
  # transformers makes no pooler where there is a classifier.
  if _HEAD in kept and _POOLER in kept:
    notes.append("The pooler, which the classifier does not use, is left out.")
    unused += [name for name in kept if name.startswith("pooler.")]
  return {n: x for n, x in kept.items() if n not in unused}, notes


def architecture(config: Fields, tensors: Tensors) -> schema.Model:
  """The network that config.json describes.

  Raises:
    UserError: it is not one of ours; naming the key.
  """
  width = config.integer("hidden_size", 768)
  num_heads = config.integer("num_attention_heads", 12)
  if width % num_heads:
    raise config.refusal(
      "num_attention_heads", f"does not divide hidden_size, {width}"
    )
  if config.integer("head_dim", width // num_heads) != width // num_heads:
    raise config.refusal(
      "head_dim",
      f"is not hidden_size / num_attention_heads, {width // num_heads}, as in"
      " our models",
    )
  size = sizes.Size(
    width=width,
    depth=config.integer("num_hidden_layers", 12),
    num_heads=num_heads,
    mlp_dim=config.integer("intermediate_size", 3072),
    patch_size=config.side("patch_size", 16),
  )
  image_size = config.side("image_size", 224)
  if image_size < size.patch_size:
    raise config.refusal(
      "image_size", f"is smaller than patch_size, {size.patch_size}"
    )
  if config.integer("num_channels", 3) != 3:
    raise config.refusal("num_channels", "is not 3: red, green and blue")
  eps = config.number("layer_norm_eps", 1e-12)
  if eps <= 0:
    raise config.refusal("layer_norm_eps", "is not positive")
  return schema.Model(
    **sizes.vit_keys(size),
    image_size=image_size,
    drop_remainder=image_size % size.patch_size != 0,
    num_classes=_outputs(tensors, _HEAD),
    representation_size=_representation(config, tensors),
    pos_embedding_resize="bicubic",
    gelu=gelu(config, "hidden_act"),
    layer_norm_eps=eps,
    qkv_bias=config.flag("qkv_bias", True),
  )


def gelu(config: Fields, name: str) -> str:
  """config.model.gelu for an activation's name."""
  activation = config.text(name, "gelu")
  if activation not in GELUS:
    raise config.refusal(
      name, f"is not an activation of our models: {', '.join(GELUS)}"
    )
  return GELUS[activation]


def pairs(model: schema.Model) -> list[Pair]:
  return torch_vit.pairs(model, NAMES)


def settings(model: schema.Model) -> dict[str, Any]:
  """The config.json of `architecture`, without the names of classes.

  Raises:
    UserError: Hugging Face's ViT cannot be such a network.
  """
  size = sizes.vit(model)
  if size.stem_blocks is not None:
    raise _not_expressible("the convolutional stem of a hybrid")
  if not sizes.has_cls(model.pool, model.cls_token) or model.pool != "cls":
    raise _not_expressible(f"model.pool='{model.pool}'")
  if model.norm_after_pool:
    raise _not_expressible("model.norm_after_pool=True")
  positions = (model.pos_embedding, model.pos_embedding_at)
  if positions != ("learned_1d", "stem"):
    raise _not_expressible(
      f"model.pos_embedding='{positions[0]}' at '{positions[1]}'"
    )
  has_head = model.num_classes is not None
  representation = sizes.representation_size(model)
  if has_head and representation is not None:
    raise _not_expressible(
      "a hidden layer (pre_logits) before the classifier; without the"
      " classifier, it can"
    )
  found = {
    "architectures": ["ViTForImageClassification" if has_head else "ViTModel"],
    "model_type": "vit",
    "hidden_size": size.width,
    "num_hidden_layers": size.depth,
    "num_attention_heads": size.num_heads,
    "intermediate_size": size.mlp_dim,
    "hidden_act": _ACTIVATIONS[model.gelu],
    "layer_norm_eps": model.layer_norm_eps,
    "image_size": model.image_size,
    "patch_size": size.patch_size,
    "num_channels": 3,
    "qkv_bias": model.qkv_bias,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    # What is predicted of a masked patch, which nothing here does.
    "encoder_stride": size.patch_size,
  }
  if representation is not None:
    found |= {"pooler_output_size": representation, "pooler_act": "tanh"}
  return found


def processor(model: schema.Model) -> dict[str, Any]:
  """preprocessor_config.json, without the statistics of pixels."""
  side = {"height": model.image_size, "width": model.image_size}
  return {"image_processor_type": "ViTImageProcessor", "size": side}


def scaled(
  model: schema.Model, tensors: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
  """Tensors with which Hugging Face's ViT computes what ours does."""
  del model
  return tensors


def _not_expressible(what: str) -> UserError:
  return UserError(
    f"Hugging Face's ViT cannot have {what}. A NAME.npz or a workdir can hold"
    " this network."
  )


def _representation(config: Fields, tensors: Tensors) -> int | None:
  """Units of the pooler: a dense layer and tanh, our pre_logits."""
  if _POOLER not in tensors:
    return None
  if config.text("pooler_act", "tanh") != "tanh":
    raise config.refusal("pooler_act", "is not tanh, as in our models")
  return _outputs(tensors, _POOLER)


def _outputs(tensors: Tensors, name: str) -> int | None:
  """Rows of a matrix; None where it is missing."""
  if name not in tensors:
    return None
  # A wrong rank is told, with all that is wrong, when the shapes are checked.
  return max(1, (*tensors[name].shape, 1)[0])
