"""Hugging Face's CLIP and SigLIP."""

from typing import Any

import numpy as np

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.text import sizes as text_sizes
from vit_jax.models.two_towers.shapes import embedding_size, image_tower
from vit_jax.models.vit import sizes as vit_sizes
from vit_jax.weights.fields import COUNT, Fields
from vit_jax.weights.huggingface_processor import BICUBIC
from vit_jax.weights.spellings.contract import HuggingFace
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.vit.huggingface import ACTIVATIONS, layer_keys

_VISION, _TEXT = "vision_model", "text_model"
# The id by which transformers detects old files, whose end of text has another
# id.
_ANY_EOT = 2


def _layers(ours: str, theirs: str) -> list[tuple[str, str]]:
  block = f"{ours}/Transformer/encoderblock_{{0}}"
  attention = f"{block}/MultiHeadDotProductAttention_0"
  layer = f"{theirs}.encoder.layers.{{0}}"
  return [
    (f"{block}/LayerNorm_0", f"{layer}.layer_norm1"),
    (f"{attention}/query", f"{layer}.self_attn.q_proj"),
    (f"{attention}/key", f"{layer}.self_attn.k_proj"),
    (f"{attention}/value", f"{layer}.self_attn.v_proj"),
    (f"{attention}/out", f"{layer}.self_attn.out_proj"),
    (f"{block}/LayerNorm_1", f"{layer}.layer_norm2"),
    (f"{block}/MlpBlock_0/Dense_0", f"{layer}.mlp.fc1"),
    (f"{block}/MlpBlock_0/Dense_1", f"{layer}.mlp.fc2"),
  ]


_CLASS = f"{_VISION}.embeddings.class_embedding"
_POSITIONS = f"{_VISION}.embeddings.position_embedding.weight"
_TEXT_POSITIONS = f"{_TEXT}.embeddings.position_embedding.weight"
_TOKENS = f"{_TEXT}.embeddings.token_embedding.weight"
_HEAD = f"{_VISION}.head"
_POOLING = "image/MAPHead_0"
_PARTS = ("q_proj", "k_proj", "v_proj")
NAMES = Names(
  rows=(
    ("image/embedding", f"{_VISION}.embeddings.patch_embedding"),
    ("image/cls", _CLASS),
    ("image/Transformer/posembed_input/pos_embedding", _POSITIONS),
    ("image/norm_pre", f"{_VISION}.pre_layrnorm"),
    *_layers("image", _VISION),
    ("image/Transformer/encoder_norm", f"{_VISION}.post_layernorm"),
    (f"{_POOLING}/probe", f"{_HEAD}.probe"),
    # Joined in files.
    *(
      (f"{_POOLING}/MultiHeadDotProductAttention_0/{ours}", f"{_HEAD}.{theirs}")
      for ours, theirs in zip(("query", "key", "value"), _PARTS, strict=True)
    ),
    (
      f"{_POOLING}/MultiHeadDotProductAttention_0/out",
      f"{_HEAD}.attention.out_proj",
    ),
    (f"{_POOLING}/LayerNorm_0", f"{_HEAD}.layernorm"),
    (f"{_POOLING}/MlpBlock_0/Dense_0", f"{_HEAD}.mlp.fc1"),
    (f"{_POOLING}/MlpBlock_0/Dense_1", f"{_HEAD}.mlp.fc2"),
    (f"text/{text_sizes.TOKENS}", _TOKENS),
    (f"text/{text_sizes.POSITIONS}", _TEXT_POSITIONS),
    *_layers("text", _TEXT),
    ("text/Transformer/encoder_norm", f"{_TEXT}.final_layer_norm"),
    ("image_projection", "visual_projection"),
    ("text_projection", "text_projection"),
    ("text_projection", f"{_TEXT}.head"),
    ("logit_scale", "logit_scale"),
    ("logit_bias", "logit_bias"),
  ),
  required=(
    f"{_VISION}.embeddings.patch_embedding.weight",
    _POSITIONS,
    _TOKENS,
    _TEXT_POSITIONS,
  ),
)


def select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """Converts tensors to our shapes; drops the buffers of old files."""
  del config
  kept = {
    name: tensor
    for name, tensor in tensors.items()
    if not name.endswith(".position_ids")
  }
  return in_our_shapes(kept), []


def in_our_shapes(tensors: Tensors) -> dict[str, np.ndarray]:
  """Gives tensors with Hugging Face's names the axes of ours.

  Raises:
    UserError: A joined projection does not have three parts.
  """
  found = dict(tensors)
  for name in (_CLASS, _POSITIONS, _TEXT_POSITIONS):
    if name in found:
      shape = (1,) * (3 - found[name].ndim) + found[name].shape
      found[name] = found[name].reshape(shape)
  for name in ("logit_scale", "logit_bias"):
    if name in found and found[name].size == 1:
      found[name] = found[name].reshape(())
  for leaf in ("weight", "bias"):
    joined = found.pop(f"{_HEAD}.attention.in_proj_{leaf}", None)
    if joined is not None:
      for part, tensor in zip(_PARTS, _thirds(joined), strict=True):
        found[f"{_HEAD}.{part}.{leaf}"] = tensor
  return found


def _thirds(joined: np.ndarray) -> list[np.ndarray]:
  if joined.ndim == 0 or len(joined) % 3:
    raise UserError(
      f"'{_HEAD}.attention.in_proj_...' is of shape {joined.shape}, which is"
      " not three projections."
    )
  return np.split(joined, 3)


def _scale(model: schema.Model, tensors: Tensors) -> Tensors:
  """Converts tensors to Hugging Face's shapes."""
  found = dict(tensors)
  if _CLASS in found:
    found[_CLASS] = found[_CLASS].reshape(-1)
  for name in (_POSITIONS, _TEXT_POSITIONS):
    found[name] = found[name][0]
  if not _is_siglip(model):
    return found
  for leaf in ("weight", "bias"):
    parts = [found.pop(f"{_HEAD}.{part}.{leaf}") for part in _PARTS]
    found[f"{_HEAD}.attention.in_proj_{leaf}"] = np.concatenate(parts)
    found[f"{_TEXT}.head.{leaf}"] = found.pop(f"text_projection.{leaf}")
  for name in ("logit_scale", "logit_bias"):
    found[name] = found[name].reshape(1)
  return found


def _said_clip(config: Fields, tensors: Tensors) -> dict[str, Any]:
  del tensors
  vision, text = (_clip_section(config, one) for one in ("vision", "text"))
  eot = text.get("eos_token_id", COUNT, 49_407)
  return {
    "pos_embedding_resize": "bicubic",
    "image_size": vision.side("image_size", 224),
    "image": clip_tower(vision),
    "text": {
      "num_heads": text.get("num_attention_heads", COUNT, 8),
      "causal": True,
      "pool": "eot",
      "eot_token": None if eot == _ANY_EOT else eot,
      **layer_keys(text, 1e-5, "quick_gelu"),
    },
  }


def _said_siglip(config: Fields, tensors: Tensors) -> dict[str, Any]:
  vision, text = map(config.mapping, ("vision_config", "text_config"))
  if not has_siglip_head(tensors):
    raise config.refusal(
      "vision_config", "is of a SigLIP without its head, which is not read"
    )
  return {
    "pos_embedding_resize": "bicubic",
    "image_size": vision.side("image_size", 224),
    "image": siglip_tower(vision),
    "text": {
      "num_heads": text.get("num_attention_heads", COUNT, 12),
      "pool": "last",
      **layer_keys(text, 1e-6, "gelu_pytorch_tanh"),
    },
  }


def clip_tower(vision: Fields) -> dict[str, Any]:
  """Returns keys of CLIP's image tower that its config states."""
  return {
    "num_heads": vision.get("num_attention_heads", COUNT, 12),
    "pool": "cls",
    **layer_keys(vision, 1e-5, "quick_gelu"),
  }


def siglip_tower(vision: Fields) -> dict[str, Any]:
  """Returns keys of SigLIP's image tower that its config states."""
  return {
    "num_heads": vision.get("num_attention_heads", COUNT, 12),
    **layer_keys(vision, 1e-6, "gelu_pytorch_tanh"),
  }


def has_siglip_head(tensors: Tensors) -> bool:
  """Tells whether an image tower has the head that pools its tokens."""
  return f"{_HEAD}.probe" in tensors


def _clip_section(config: Fields, tower: str) -> Fields:
  """Returns a tower's config; an old file's second one overrides the first.

  transformers also overrides what the second one does not state, by defaults.
  """
  second = f"{tower}_config_dict"
  return config.mapping(second if second in config else f"{tower}_config")


def _is_siglip(model: schema.Model) -> bool:
  return model.bias_init is not None


def _writes(model: schema.Model, siglip: bool) -> bool:
  return model.name == "two_towers" and _is_siglip(model) == siglip


def _config_clip(model: schema.Model) -> dict[str, Any]:
  wanted = {
    "image": {"pool": "cls", "pre_norm": True, "patch_bias": False},
    "text": {"pool": "eot", "causal": True},
    "image_projection": "linear",
    "text_projection": "linear",
  }
  found = _config(model, "CLIP", wanted)
  size = embedding_size(model)
  eot = model.text.eot_token
  found["text_config"] |= {
    "model_type": "clip_text_model",
    "projection_dim": size,
    "eos_token_id": _ANY_EOT if eot is None else eot,
  }
  found["vision_config"] |= {
    "model_type": "clip_vision_model",
    "projection_dim": size,
  }
  return found | {"projection_dim": size}


def _config_siglip(model: schema.Model) -> dict[str, Any]:
  wanted = {
    "image": {
      "pool": "map",
      "cls_token": None,
      "pre_norm": False,
      "patch_bias": True,
    },
    "text": {"pool": "last", "causal": False},
    "image_projection": "none",
    "text_projection": "affine",
  }
  found = _config(model, "SigLIP", wanted)
  found["text_config"] |= {
    "model_type": "siglip_text_model",
    "projection_size": embedding_size(model),
  }
  found["vision_config"] |= {"model_type": "siglip_vision_model"}
  return found


def _config(
  model: schema.Model, kind: str, wanted: dict[str, Any]
) -> dict[str, Any]:
  """Returns config.json for a network that Hugging Face's `kind` supports.

  Raises:
    UserError: The network differs from `wanted` or has a part that `kind` does
      not have.
  """
  tower = image_tower(model)
  image = {
    **wanted.pop("image"),
    "representation_size": None,
    "layer_scale": None,
    "qkv_bias": True,
    "key_bias": True,
    "norm_after_pool": False,
    "registers": 0,
    "mlp": "gelu",
    "mlp_norm": False,
    "rope": False,
    "distillation": "none",
    "pos_embedding": "learned_1d",
    "pos_embedding_at": "stem",
    "cls_position": True,
  }
  if tower.name != "vit" or vit_sizes.vit(tower).stem_blocks is not None:
    raise _not_expressible(
      "image", registry.FAMILIES.get(tower.name).title, kind
    )
  pairs = {
    f"image.{name}": (tower, name, value) for name, value in image.items()
  }
  pairs |= {
    f"text.{name}": (model.text, name, value)
    for name, value in wanted.pop("text").items()
  }
  pairs |= {name: (model, name, value) for name, value in wanted.items()}
  for shown, (section, name, value) in pairs.items():
    if getattr(section, name) != value:
      raise _not_expressible(shown, repr(getattr(section, name)), kind)
  of_text = text_sizes.size(model.text)
  return {
    "architectures": [f"{'Siglip' if kind == 'SigLIP' else kind}Model"],
    "vision_config": vision_config(tower),
    "text_config": {
      **_transformer(of_text, model.text),
      "vocab_size": model.text.vocab_size,
      "max_position_embeddings": model.text.length,
    },
  }


def vision_config(tower: schema.Model) -> dict[str, Any]:
  """Returns the sizes in the config of an image tower."""
  size = vit_sizes.vit(tower)
  return {
    **_transformer(size, tower),
    "image_size": tower.image_size,
    "patch_size": size.patch_size,
    "num_channels": 3,
  }


def _transformer(size: Any, section: Any) -> dict[str, Any]:
  return {
    "hidden_size": size.width,
    "num_hidden_layers": size.depth,
    "num_attention_heads": size.num_heads,
    "intermediate_size": size.mlp_dim,
    "hidden_act": ACTIVATIONS[section.gelu],
    "layer_norm_eps": section.layer_norm_eps,
  }


def _not_expressible(name: str, value: str, kind: str) -> UserError:
  return UserError(
    f"Hugging Face's {kind} cannot have model.{name}={value}. A NAME.npz or a"
    " workdir can hold this network."
  )


def processor(kind: str):
  """Returns `HuggingFace.processor` of "CLIP" or "SigLIP"."""

  def described(model: schema.Model) -> dict[str, Any]:
    side = model.image_size
    if kind == "SigLIP":
      return {
        "image_processor_type": "SiglipImageProcessor",
        "resample": BICUBIC,
        "size": {"height": side, "width": side},
      }
    return {
      "image_processor_type": "CLIPImageProcessor",
      "resample": BICUBIC,
      "size": {"shortest_edge": side},
      "crop_size": {"height": side, "width": side},
    }

  return described


_UNCHECKED = frozenset({"vision_config", "text_config", "projection_dim"})
CLIP = HuggingFace(
  writes=lambda model: _writes(model, siglip=False),
  prefix="",
  normalize="clip",
  names=NAMES,
  said=_said_clip,
  config=_config_clip,
  unchecked=_UNCHECKED,
  processor=processor("CLIP"),
  select=select,
  scale=_scale,
)
SIGLIP = HuggingFace(
  writes=lambda model: _writes(model, siglip=True),
  prefix="",
  normalize="minus_one_to_one",
  names=NAMES,
  said=_said_siglip,
  config=_config_siglip,
  unchecked=_UNCHECKED,
  processor=processor("SigLIP"),
  select=select,
  scale=_scale,
)
