"""The parameters of PyTorch's Vision Transformers beside ours."""

import dataclasses

from vit_jax.config import schema, sizes
from vit_jax.weights.torch_layout import (
  Pair,
  conv,
  dense,
  from_heads,
  norm,
  plain,
  to_heads,
)
from vit_jax.weights.torch_resnet import stem_pairs
from vit_jax.weights.vit_shapes import TABLE


@dataclasses.dataclass(frozen=True)
class Attention:
  """What a library calls the four projections."""

  query: str
  key: str
  value: str
  out: str


@dataclasses.dataclass(frozen=True)
class Names:
  """What a library calls the parts; `block` has a place for the number.

  Attributes:
    map_head: the head of attention pooling; its attention is named as
      `map_attention` says, its norm and MLP as timm names them.
    norm_after_pool: the last norm, where it stands after the pooling.
    stem: what stands before the names of a hybrid's stem.
  """

  embedding: str
  cls: str
  pos_embedding: str
  block: str
  norm_0: str
  attention: Attention
  norm_1: str
  dense_0: str
  dense_1: str
  last_norm: str
  pre_logits: str
  head: str
  map_head: str = ""
  map_attention: Attention | None = None
  norm_after_pool: str = ""
  stem: str = ""


def pairs(model: schema.Model, names: Names) -> list[Pair]:
  """Every parameter of a ViT or hybrid with a learned position embedding."""
  size = sizes.vit(model)
  width = size.width
  found, channels = [], 3
  if size.stem_blocks is not None:
    found, channels = stem_pairs(size.stem_blocks, size.stem_width, names.stem)
  patch = size.patch_size // size.stem_stride
  found += conv(names.embedding, "embedding", patch, channels, width, bias=True)
  has_cls = sizes.has_cls(model.pool, model.cls_token)
  if has_cls:
    found += plain(names.cls, "cls", 1, 1, width)
  num_tokens = size.grid(model.image_size) ** 2 + has_cls
  found += plain(names.pos_embedding, TABLE, 1, num_tokens, width)
  for layer in range(size.depth):
    found += _block(model, size, names, layer)
  if model.norm_after_pool:
    found += norm(names.norm_after_pool, "fc_norm", width)
  else:
    found += norm(names.last_norm, "Transformer/encoder_norm", width)
  if model.pool == "map":
    found += _map_head(model, size, names)
  features = width
  if model.representation_size is not None:
    features = sizes.representation_size(model)
    found += dense(names.pre_logits, "pre_logits", width, features)
  if model.num_classes is not None:
    found += dense(names.head, "head", features, model.num_classes)
  return found


def _block(
  model: schema.Model, size: sizes.Size, names: Names, layer: int
) -> list[Pair]:
  theirs = names.block.format(layer)
  ours = f"Transformer/encoderblock_{layer}"
  mlp = f"{ours}/MlpBlock_0"
  width, hidden = size.width, size.mlp_dim
  return [
    *norm(f"{theirs}.{names.norm_0}", f"{ours}/LayerNorm_0", width),
    *_attention(model, size, names.attention, theirs, ours),
    *norm(f"{theirs}.{names.norm_1}", f"{ours}/LayerNorm_1", width),
    *dense(f"{theirs}.{names.dense_0}", f"{mlp}/Dense_0", width, hidden),
    *dense(f"{theirs}.{names.dense_1}", f"{mlp}/Dense_1", hidden, width),
  ]


def _map_head(
  model: schema.Model, size: sizes.Size, names: Names
) -> list[Pair]:
  theirs, ours = names.map_head, "MAPHead_0"
  assert names.map_attention is not None
  mlp = f"{ours}/MlpBlock_0"
  width, hidden = size.width, size.mlp_dim
  return [
    *plain(f"{theirs}.latent", f"{ours}/probe", 1, 1, width),
    *_attention(model, size, names.map_attention, theirs, ours),
    *norm(f"{theirs}.norm", f"{ours}/LayerNorm_0", width),
    *dense(f"{theirs}.{names.dense_0}", f"{mlp}/Dense_0", width, hidden),
    *dense(f"{theirs}.{names.dense_1}", f"{mlp}/Dense_1", hidden, width),
  ]


def _attention(
  model: schema.Model,
  size: sizes.Size,
  names: Attention,
  theirs: str,
  ours: str,
) -> list[Pair]:
  ours = f"{ours}/MultiHeadDotProductAttention_0"
  found = []
  for name in ("query", "key", "value"):
    found += to_heads(
      f"{theirs}.{getattr(names, name)}",
      f"{ours}/{name}",
      size.width,
      size.num_heads,
      bias=model.qkv_bias,
    )
  return found + from_heads(
    f"{theirs}.{names.out}", f"{ours}/out", size.width, size.num_heads
  )
