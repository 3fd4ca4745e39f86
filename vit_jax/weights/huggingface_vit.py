"""Hugging Face's ViT, DeiT and ViT-MAE: their config.json and their names.

The names in files are those that transformers has always written; those that
its newer modules have inside are understood as well.
"""

import re
from collections.abc import Mapping

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
