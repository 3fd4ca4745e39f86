"""BEiT and BEiT v2, in the formats of Hugging Face, timm and the authors.

Hugging Face's files use the names that transformers has always written; the
names that its newer modules use internally are understood as well.
"""

import dataclasses
import re
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes
from vit_jax.weights import flat
from vit_jax.weights.fields import FLAG, NUMBER, Fields
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.contract import (
  Beside,
  HuggingFace,
  Original,
  Timm,
)
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.vit import timm
from vit_jax.weights.spellings.vit.huggingface import (
  ACTIVATIONS,
  VIT,
  encoder_keys,
  not_expressible,
)

_BLOCK = "Transformer/encoderblock_{0}"
_ATTENTION = f"{_BLOCK}/MultiHeadDotProductAttention_0"
_LAYER = "encoder.layer.{0}"
_TABLE = "relative_position_bias_table"
_SHARED = f"encoder.relative_position_bias.{_TABLE}"
_NAMES = Names(
  rows=(
    ("embedding", "embeddings.patch_embeddings.projection"),
    ("cls", "embeddings.cls_token"),
    ("Transformer/relative_bias/table", _SHARED),
    (f"{_BLOCK}/LayerNorm_0", f"{_LAYER}.layernorm_before"),
    (f"{_ATTENTION}/query", f"{_LAYER}.attention.attention.query"),
    (f"{_ATTENTION}/key", f"{_LAYER}.attention.attention.key"),
    (f"{_ATTENTION}/value", f"{_LAYER}.attention.attention.value"),
    (
      f"{_BLOCK}/relative_bias/table",
      f"{_LAYER}.attention.attention.relative_position_bias.{_TABLE}",
    ),
    (f"{_ATTENTION}/out", f"{_LAYER}.attention.output.dense"),
    (f"{_BLOCK}/layer_scale_0", f"{_LAYER}.lambda_1"),
    (f"{_BLOCK}/LayerNorm_1", f"{_LAYER}.layernorm_after"),
    (f"{_BLOCK}/MlpBlock_0/Dense_0", f"{_LAYER}.intermediate.dense"),
    (f"{_BLOCK}/MlpBlock_0/Dense_1", f"{_LAYER}.output.dense"),
    (f"{_BLOCK}/layer_scale_1", f"{_LAYER}.lambda_2"),
    ("Transformer/encoder_norm", "layernorm"),
    ("fc_norm", "pooler.layernorm"),
    ("head", "classifier"),
  ),
  required=(
    "embeddings.patch_embeddings.projection.weight",
    "embeddings.cls_token",
  ),
)
# Patterns of the newer modules' names, and the names in files.
_NEWER = (
  (re.compile(r"^layers\.(\d+)\."), r"encoder.layer.\1."),
  (re.compile(r"^shared_position_bias\."), "encoder.relative_position_bias."),
  (
    re.compile(r"(layer\.\d+)\.relative_position_bias\."),
    r"\1.attention.attention.relative_position_bias.",
  ),
  (re.compile(r"\.attention\.q_proj\."), ".attention.attention.query."),
  (re.compile(r"\.attention\.k_proj\."), ".attention.attention.key."),
  (re.compile(r"\.attention\.v_proj\."), ".attention.attention.value."),
  (re.compile(r"\.attention\.o_proj\."), ".attention.output.dense."),
  (re.compile(r"\.mlp\.fc1\."), ".intermediate.dense."),
  (re.compile(r"\.mlp\.fc2\."), ".output.dense."),
)
_MASK_TOKEN = "mask_token"
_HF_MASK_TOKEN = f"embeddings.{_MASK_TOKEN}"
_HF_FIRST = (
  f"{_LAYER.format(0)}.attention.attention.relative_position_bias.{_TABLE}"
)
_FIRST = f"blocks.0.attn.{_TABLE}"
_ALL = f"rel_pos_bias.{_TABLE}"
# Parts that predict patch tokens in pre-training; the layers are BEiT v2's.
_PREDICTS = re.compile(r"(lm_head|cls_pt_\w+)\..*|(embeddings\.)?mask_token")
_HEAD_LAYERS = "cls_pt_layers."
_OWN_HEAD = "cls_pt_lm_head.weight"
_LAYER_SCALE = 0.1  # Initial value in BEiT-B and Hugging Face's networks.


def _file_name(name: str) -> str:
  for pattern, replacement in _NEWER:
    name = pattern.sub(replacement, name)
  return name


def _select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  """Selects the tensors that affect outputs; adds notes about the others."""
  if config.get("use_absolute_position_embeddings", FLAG, False):
    raise config.refusal(
      "use_absolute_position_embeddings",
      "adds positions to patches in addition to the biases of scores, which"
      " neither a published BEiT nor our networks do",
    )
  has_second_norm = not config.get("use_mean_pooling", FLAG, True)
  if has_second_norm and "lm_head.weight" in tensors:
    raise config.refusal(
      "use_mean_pooling",
      "puts one norm after another before the prediction head, which our"
      " networks do not have",
    )
  return _network(tensors, (_HF_FIRST, _SHARED), config.path)


def _network(
  tensors: Tensors, tables: tuple[str, str], path: str
) -> tuple[Tensors, list[str]]:
  """Returns the network's tensors and notes about what is left out.

  Args:
    tensors: Tensors by name.
    tables: Names of the first layer's bias table and of the shared one.
    path: Path of the file, for messages.

  Raises:
    UserError: There are no tables, or both kinds.
  """
  there = [name for name in tables if name in tensors]
  if len(there) != 1:
    raise UserError(
      f"{path} has {' and '.join(there) or 'no table of relative biases'}; our"
      " networks have either a table in every layer or one for all, as all"
      " published BEiTs do."
    )
  found = {n: x for n, x in tensors.items() if not _PREDICTS.fullmatch(n)}
  left_out = [n for n in tensors if n.startswith(("lm_", "cls_pt_"))]
  notes = []
  if left_out:
    notes.append(
      f"The prediction head ({len(left_out)} tensors) is not part of the"
      " network."
    )
  if _OWN_HEAD in tensors:
    notes.append(
      "Its cls_pt_layers have a norm and a head of their own"
      " (shared_lm_head=False), which ours share with the network, so these"
      " layers are not read; a run of objective 'beit' starts them anew."
    )
  return found, notes


def _beside(mask_token: str, tensors: Tensors) -> Beside:
  """Returns the embedding of masked patches and the token prediction head."""
  token, head = tensors.get(mask_token), "lm_head.weight"
  found: dict[str, Any] = {}
  if token is not None:
    found["mask_token"] = token.reshape(1, 1, -1)
  if head in tensors and np.ndim(tensors[head]) == 2:
    kernel = tensors[head].T
    bias = tensors.get("lm_head.bias", np.zeros(kernel.shape[1], np.float32))
    found["patch_head"] = {"kernel": kernel, "bias": bias}
  return found, None


def _said(config: Fields, tensors: Tensors) -> dict[str, Any]:
  found = encoder_keys(config, 1e-12)
  if "pooler.layernorm.weight" in tensors:
    found |= {"pool": "gap", "cls_token": True}
  start = config.get("layer_scale_init_value", NUMBER, _LAYER_SCALE)
  if start > 0:
    found["layer_scale"] = start
  return {**found, "pos_embedding_resize": "bilinear_half_pixel"}


def _config(model: schema.Model) -> dict[str, Any]:
  size = sizes.vit(model)
  has_head = model.num_classes is not None
  if model.pos_embedding != "relative_bias":
    raise _refusal(f"model.pos_embedding='{model.pos_embedding}'")
  if size.stem_blocks is not None:
    raise _refusal("the convolutional stem of a hybrid")
  if (model.pool, model.norm_after_pool) not in (("gap", True), ("cls", False)):
    raise _refusal(
      f"model.pool='{model.pool}' with"
      f" model.norm_after_pool={model.norm_after_pool}"
    )
  for key, wanted in (
    ("qkv_bias", True),
    ("key_bias", False),
    ("mlp", "gelu"),
    ("mlp_norm", False),
    ("pre_norm", False),
    ("patch_bias", True),
    ("representation_size", None),
  ):
    if getattr(model, key) != wanted:
      raise _refusal(f"model.{key}={getattr(model, key)!r}")
  is_shared = model.pos_embedding_at == "every_layer_shared"
  kind = "ForImageClassification" if has_head else "Model"
  return {
    "architectures": [f"Beit{kind}"],
    "hidden_size": size.width,
    "num_hidden_layers": size.depth,
    "num_attention_heads": size.num_heads,
    "intermediate_size": size.mlp_dim,
    "hidden_act": ACTIVATIONS[model.gelu],
    "layer_norm_eps": model.layer_norm_eps,
    "image_size": model.image_size,
    "patch_size": size.patch_size,
    "num_channels": 3,
    "use_absolute_position_embeddings": False,
    "use_relative_position_bias": not is_shared,
    "use_shared_relative_position_bias": is_shared,
    "use_mask_token": False,
    "use_mean_pooling": model.pool == "gap",
    "layer_scale_init_value": model.layer_scale or 0.0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "drop_path_rate": 0.0,
  }


def _refusal(what: str) -> UserError:
  return not_expressible(what, "BEiT")


def _is_beit(model: schema.Model) -> bool:
  return model.name == "vit" and model.pos_embedding == "relative_bias"


HUGGINGFACE = HuggingFace(
  writes=_is_beit,
  prefix="beit.",
  normalize="minus_one_to_one",
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
      "use_mean_pooling",
      "layer_scale_init_value",
    }
  ),
  processor=VIT.processor,
  file_name=_file_name,
  select=_select,
  beside=lambda config, tensors: _beside(_HF_MASK_TOKEN, tensors),
)

_TIMM_NAMES = Names(
  rows=(
    ("Transformer/relative_bias/table", _ALL),
    (f"{_BLOCK}/relative_bias/table", f"blocks.{{0}}.attn.{_TABLE}"),
    (f"{_ATTENTION}/query/bias", "blocks.{0}.attn.q_bias"),
    (f"{_ATTENTION}/value/bias", "blocks.{0}.attn.v_bias"),
    (f"{_BLOCK}/layer_scale_0", "blocks.{0}.gamma_1"),
    (f"{_BLOCK}/layer_scale_1", "blocks.{0}.gamma_2"),
    *timm.TIMM.names.rows,
  ),
  required=timm.TIMM.names.required,
)


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Returns the network's tensors with joined projections split."""
  if "pos_embed" in tensors:
    raise UserError(
      f"{path} adds positions to patches ('pos_embed') in addition to the"
      " biases of scores, which neither a published BEiT nor our networks do."
    )
  tensors = timm.without_key_biases(tensors)
  found, more = _network(tensors, (_FIRST, _ALL), path)
  notes += more
  return timm.without_joined_projections(found, path)


def _said_by_timm(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  # The tables determine the number of heads.
  del notes
  found = timm.said_of_encoder(config, tensors, path, [])
  name = _FIRST if _FIRST in tensors else _ALL
  found |= {"num_heads": (1, *tensors[name].shape)[-1]}
  if found["pool"] == "gap":
    found["cls_token"] = True
  return {**found, "pos_embedding_resize": "geometric"}


def _beside_of_second(tensors: Tensors, path: str) -> Beside:
  """As `_beside`, and the layers that predict from the class token.

  Layers with a head of their own are left out.
  """
  found, objective = _beside(_MASK_TOKEN, tensors)
  if _OWN_HEAD in tensors:
    return found, objective
  layers = {
    name: tensor
    for name, tensor in timm.without_key_biases(tensors).items()
    if name.startswith(_HEAD_LAYERS)
  }
  num_heads = (1, *np.shape(tensors.get(_ALL)))[-1]
  converted = {}
  for name, tensor in timm.without_joined_projections(layers, path).items():
    name = f"blocks.{name.removeprefix(_HEAD_LAYERS)}"
    ours = _TIMM_NAMES.ours(name, tensor.ndim)
    converted[ours] = names.to_ours(ours, tensor, num_heads)
  added = flat.unflatten(converted)["Transformer"]
  return {**found, "aggregation": added}, objective


def _said_originally(
  tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  found = _said_by_timm(Fields(path, {}), tensors, path, notes)
  notes.append(
    "Pixels are normalised as BEiT's are: (x - 127.5) / 127.5 is taken"
    " (model.normalize='minus_one_to_one'); BEiT v2 wants 'imagenet'."
  )
  return {**found, "normalize": "minus_one_to_one"}


TIMM = Timm(
  label="beit_*, beitv2_*",
  architectures=r"beit(v2)?_",
  names=_TIMM_NAMES,
  marks=(_FIRST, _ALL),
  said=_said_by_timm,
  prepare=_prepare,
  arguments=frozenset(
    {"use_rel_pos_bias", "use_shared_rel_pos_bias", "use_fc_norm"}
  ),
)
ORIGINAL = Original(
  label="BEiT, BEiT v2",
  names=_TIMM_NAMES,
  said=_said_originally,
  prepare=_prepare,
  marks=(_FIRST, _ALL),
  beside=lambda tensors, path: _beside(_MASK_TOKEN, tensors),
)
# Of a pre-trained BEiT v2: no other network has these layers.
SECOND = dataclasses.replace(
  ORIGINAL,
  label="BEiT v2 as pre-trained",
  said=lambda tensors, path, notes: {
    **_said_by_timm(Fields(path, {}), tensors, path, notes),
    "normalize": "imagenet",
  },
  marks=(f"{_HEAD_LAYERS}0.norm1.weight",),
  beside=_beside_of_second,
)
