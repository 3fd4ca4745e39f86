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

POS_EMBEDDING = "Transformer/posembed_input/pos_embedding"


@dataclasses.dataclass(frozen=True)
class Names:
  """What a library calls the parts; `block` has a place for the number."""

  embedding: str
  cls: str
  pos_embedding: str
  block: str
  norm_0: str
  query: str
  key: str
  value: str
  out: str
  norm_1: str
  dense_0: str
  dense_1: str
  last_norm: str
  pre_logits: str
  head: str


def pairs(model: schema.Model, names: Names) -> list[Pair]:
  """Every parameter of a ViT with a learned position embedding.

  Args:
    model: with pool 'cls' or 'gap'.
    names: of the library.
  """
  size = sizes.vit(model)
  width = size.width
  has_cls = model.pool == "cls" if model.cls_token is None else model.cls_token
  num_tokens = size.grid(model.image_size) ** 2 + has_cls
  found = conv(
    names.embedding, "embedding", size.patch_size, 3, width, bias=True
  )
  if has_cls:
    found += plain(names.cls, "cls", 1, 1, width)
  found += plain(names.pos_embedding, POS_EMBEDDING, 1, num_tokens, width)
  for layer in range(size.depth):
    found += _block(model, size, names, layer)
  found += norm(names.last_norm, "Transformer/encoder_norm", width)
  features = width
  if model.representation_size is not None:
    features = int(model.representation_size)
    found += dense(names.pre_logits, "pre_logits", width, features)
  if model.num_classes is not None:
    found += dense(names.head, "head", features, model.num_classes)
  return found


def _block(
  model: schema.Model, size: sizes.Size, names: Names, layer: int
) -> list[Pair]:
  width, heads = size.width, size.num_heads
  theirs = names.block.format(layer)
  ours = f"Transformer/encoderblock_{layer}"
  attention = f"{ours}/MultiHeadDotProductAttention_0"
  found = norm(f"{theirs}.{names.norm_0}", f"{ours}/LayerNorm_0", width)
  for name in ("query", "key", "value"):
    found += to_heads(
      f"{theirs}.{getattr(names, name)}",
      f"{attention}/{name}",
      width,
      heads,
      bias=model.qkv_bias,
    )
  mlp = f"{ours}/MlpBlock_0"
  return [
    *found,
    *from_heads(f"{theirs}.{names.out}", f"{attention}/out", width, heads),
    *norm(f"{theirs}.{names.norm_1}", f"{ours}/LayerNorm_1", width),
    *dense(f"{theirs}.{names.dense_0}", f"{mlp}/Dense_0", width, size.mlp_dim),
    *dense(f"{theirs}.{names.dense_1}", f"{mlp}/Dense_1", size.mlp_dim, width),
  ]
