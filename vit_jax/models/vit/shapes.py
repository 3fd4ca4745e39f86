"""Names and shapes of every parameter of a ViT or hybrid."""

import math
from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from vit_jax.config import schema
from vit_jax.models.detection import Shape
from vit_jax.models.layers import relative_bias_rows
from vit_jax.models.vit import sizes

TABLE = "Transformer/posembed_input/pos_embedding"
X_TABLE = "Transformer/posembed_input/x_embedding"
Y_TABLE = "Transformer/posembed_input/y_embedding"
CLS_ROW = "Transformer/posembed_input/cls_embedding"
RELATIVE = "Transformer/posembed/relative_keys"
SHARED_BIAS = "Transformer/relative_bias/table"
LAYER_BIAS = "Transformer/encoderblock_{}/relative_bias/table"
PROJECTIONS = ("query", "key", "value")


@runtime_checkable
class Transformer(Protocol):
  """The numbers that determine the shapes of encoder blocks."""

  width: int
  num_heads: int
  mlp_dim: int


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Number of parameters of the network, including its head."""
  return sum(map(math.prod, shapes(model, num_classes).values()))


def shapes(model: schema.Model, num_classes: int | None) -> dict[str, Shape]:
  """Shapes of all parameters, {path: shape}, with unstacked layers."""
  size = sizes.vit(model)
  width = size.width
  patch, channels = size.patch_size // size.stem_stride, 3
  wanted: dict[str, Shape] = {}
  if size.stem_blocks is not None:
    wanted, channels = _stem(size.stem_blocks, size.stem_width)
  wanted |= _dense("embedding", (patch, patch, channels, width))
  if not model.patch_bias:
    del wanted["embedding/bias"]
  if model.pre_norm:
    wanted |= norm("norm_pre", width)
  if sizes.has_cls(model.pool, model.cls_token):
    wanted["cls"] = (1, 1, width)
  if model.distillation != "none":
    wanted["dist"] = (1, 1, width)
  if model.registers:
    wanted["registers"] = (1, model.registers, width)
  wanted |= _positions(model, size)
  biased = _biased(model)
  for i in range(size.depth):
    name = f"Transformer/encoderblock_{i}"
    wanted |= block(name, size, biased)
    wanted |= _gate_and_norm(f"{name}/MlpBlock_0", model, size)
    if model.layer_scale is not None:
      for branch in (0, 1):
        wanted[f"{name}/layer_scale_{branch}"] = (width,)
  last_norm = "fc_norm" if model.norm_after_pool else "Transformer/encoder_norm"
  wanted |= norm(last_norm, width)
  if model.pool == "map":
    wanted |= map_head(size, biased)
    wanted |= _gate_and_norm("MAPHead_0/MlpBlock_0", model, size)
  feature = sizes.feature_size(model)
  if representation_size := sizes.representation_size(model):
    wanted |= _dense("pre_logits", (feature, representation_size))
    feature = representation_size
  if num_classes:
    wanted |= _dense("head", (feature, num_classes))
    if model.distillation == "average":
      wanted |= _dense("head_dist", (feature, num_classes))
  return wanted


def block(
  name: str, size: Transformer, biased: Collection[str] = PROJECTIONS
) -> dict[str, Shape]:
  """Shapes of an encoder block, without LayerScale.

  Args:
    name: Name of the block.
    size: Numbers that determine its shapes.
    biased: Those of `PROJECTIONS` that have a bias.
  """
  return {
    **norm(f"{name}/LayerNorm_0", size.width),
    **_attention(name, size, biased),
    **norm(f"{name}/LayerNorm_1", size.width),
    **_mlp(name, size),
  }


def map_head(
  size: Transformer, biased: Collection[str] = PROJECTIONS
) -> dict[str, Shape]:
  """Shapes of the attention pooling head."""
  name = "MAPHead_0"
  return {
    f"{name}/probe": (1, 1, size.width),
    **_attention(name, size, biased),
    **norm(f"{name}/LayerNorm_0", size.width),
    **_mlp(name, size),
  }


def norm(name: str, width: int) -> dict[str, Shape]:
  """Shapes of a LayerNorm or GroupNorm."""
  return {f"{name}/scale": (width,), f"{name}/bias": (width,)}


def _stem(
  blocks: Sequence[int], root_width: int
) -> tuple[dict[str, Shape], int]:
  """Parameters of a hybrid's stem, and its output channels."""
  wanted: dict[str, Shape] = {"conv_root/kernel": (7, 7, 3, root_width)}
  wanted |= norm("gn_root", root_width)
  channels = root_width
  for stage, num_units in enumerate(blocks):
    hidden = root_width * 2**stage
    for unit in range(num_units):
      name = f"block{stage + 1}/unit{unit + 1}"
      kernels = {
        "1": (1, 1, channels, hidden),
        "2": (3, 3, hidden, hidden),
        "3": (1, 1, hidden, 4 * hidden),
      }
      if unit == 0:
        kernels["_proj"] = (1, 1, channels, 4 * hidden)
      for layer, kernel in kernels.items():
        wanted[f"{name}/conv{layer}/kernel"] = kernel
        wanted |= norm(f"{name}/gn{layer}", kernel[-1])
      channels = 4 * hidden
  return wanted, channels


def _positions(model: schema.Model, size: sizes.Size) -> dict[str, Shape]:
  kind, place = model.pos_embedding, model.pos_embedding_at
  width, side = size.width, size.grid(model.image_size)
  if kind in ("none", "sincos2d"):
    return {}
  if kind == "relative":
    tables = 1 if place == "every_layer_shared" else size.depth
    per_head = (size.num_heads, width // size.num_heads)
    num_tokens = side**2 + sizes.num_prefix(model)
    return {RELATIVE: (tables, 2 * num_tokens - 1, *per_head)}
  if kind == "relative_bias":
    table = (relative_bias_rows.num_rows((side, side)), size.num_heads)
    if place == "every_layer_shared":
      return {SHARED_BIAS: table}
    return {LAYER_BIAS.format(i): table for i in range(size.depth)}
  tables = size.depth if place == "every_layer" else 1
  rows = sizes.num_prefix_positions(model)
  if kind == "learned_1d":
    return {TABLE: (tables, side**2 + rows, width)}
  wanted = dict.fromkeys((X_TABLE, Y_TABLE), (tables, side, width // 2))
  if rows:
    wanted[CLS_ROW] = (tables, rows, width)
  return wanted


def _biased(model: schema.Model) -> tuple[str, ...]:
  """Those of `PROJECTIONS` that have a bias."""
  if not model.qkv_bias:
    return ()
  return PROJECTIONS if model.key_bias else ("query", "value")


def _attention(
  parent: str, size: Transformer, biased: Collection[str]
) -> dict[str, Shape]:
  width, heads = size.width, size.num_heads
  head_size = width // heads
  room = f"{parent}/MultiHeadDotProductAttention_0"
  wanted: dict[str, Shape] = {}
  for name in PROJECTIONS:
    wanted[f"{room}/{name}/kernel"] = (width, heads, head_size)
    if name in biased:
      wanted[f"{room}/{name}/bias"] = (heads, head_size)
  wanted[f"{room}/out/kernel"] = (heads, head_size, width)
  wanted[f"{room}/out/bias"] = (width,)
  return wanted


def _mlp(parent: str, size: Transformer) -> dict[str, Shape]:
  room = f"{parent}/MlpBlock_0"
  return {
    **_dense(f"{room}/Dense_0", (size.width, size.mlp_dim)),
    **_dense(f"{room}/Dense_1", (size.mlp_dim, size.width)),
  }


def _gate_and_norm(
  room: str, model: schema.Model, size: Transformer
) -> dict[str, Shape]:
  """Parameters of an MLP in addition to its two layers."""
  wanted: dict[str, Shape] = {}
  if model.mlp == "swiglu":
    wanted |= _dense(f"{room}/gate", (size.width, size.mlp_dim))
  if model.mlp_norm:
    wanted |= norm(f"{room}/LayerNorm_0", size.mlp_dim)
  return wanted


def _dense(name: str, kernel: Shape) -> dict[str, Shape]:
  return {f"{name}/kernel": kernel, f"{name}/bias": kernel[-1:]}
