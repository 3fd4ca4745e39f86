"""Names and shapes of every parameter of a ViT or hybrid."""

import dataclasses
import math
from collections.abc import Sequence

from vit_jax.config import schema
from vit_jax.models.detection import Shape
from vit_jax.models.vit import sizes

TABLE = "Transformer/posembed_input/pos_embedding"
X_TABLE = "Transformer/posembed_input/x_embedding"
Y_TABLE = "Transformer/posembed_input/y_embedding"
CLS_ROW = "Transformer/posembed_input/cls_embedding"
RELATIVE = "Transformer/posembed/relative_keys"


@dataclasses.dataclass(frozen=True)
class Positions:
  """A position embedding.

  Attributes:
    kind: 'none' where it has no parameters; otherwise as in `schema.Model`.
    side: Number of patches along a side of the image.
    num_tables: Number of tables, one or one for each layer.
  """

  kind: str
  side: int = 0
  num_tables: int = 0


@dataclasses.dataclass(frozen=True)
class Layout:
  """The facts that fix names and shapes; None stands for no such layer."""

  size: sizes.Size
  positions: Positions
  num_classes: int | None
  representation_size: int | None
  has_cls: bool
  cls_position: bool
  has_map_head: bool
  norm_after_pool: bool
  qkv_bias: bool


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Parameters of the network, its head's included."""
  size, kind = sizes.vit(model), model.pos_embedding
  one_table = model.pos_embedding_at != "every_layer"
  if kind == "relative":
    one_table = model.pos_embedding_at == "every_layer_shared"
  layout = Layout(
    size=size,
    positions=Positions(
      "none" if kind == "sincos2d" else kind,
      size.grid(model.image_size),
      1 if one_table else size.depth,
    ),
    num_classes=num_classes,
    representation_size=sizes.representation_size(model),
    has_cls=sizes.has_cls(model.pool, model.cls_token),
    cls_position=model.cls_position,
    has_map_head=model.pool == "map",
    norm_after_pool=model.norm_after_pool,
    qkv_bias=model.qkv_bias,
  )
  return sum(map(math.prod, shapes(layout).values()))


def shapes(layout: Layout) -> dict[str, Shape]:
  """Shapes of all parameters, {path: shape}, layers not stacked."""
  size = layout.size
  width = size.width
  patch, channels = size.patch_size // size.stem_stride, 3
  wanted: dict[str, Shape] = {}
  if size.stem_blocks is not None:
    wanted, channels = _stem(size.stem_blocks, size.stem_width)
  wanted |= _dense("embedding", (patch, patch, channels, width))
  if layout.has_cls:
    wanted["cls"] = (1, 1, width)
  wanted |= _positions(layout)
  for i in range(size.depth):
    name = f"Transformer/encoderblock_{i}"
    wanted |= _norm(f"{name}/LayerNorm_0", width)
    wanted |= _attention(name, layout)
    wanted |= _norm(f"{name}/LayerNorm_1", width) | _mlp(name, size)
  norm = "fc_norm" if layout.norm_after_pool else "Transformer/encoder_norm"
  wanted |= _norm(norm, width)
  if layout.has_map_head:
    name = "MAPHead_0"
    wanted[f"{name}/probe"] = (1, 1, width)
    wanted |= _attention(name, layout)
    wanted |= _norm(f"{name}/LayerNorm_0", width) | _mlp(name, size)
  feature = width
  if layout.representation_size:
    feature = layout.representation_size
    wanted |= _dense("pre_logits", (width, feature))
  if layout.num_classes:
    wanted |= _dense("head", (feature, layout.num_classes))
  return wanted


def _stem(
  blocks: Sequence[int], root_width: int
) -> tuple[dict[str, Shape], int]:
  """Parameters of a hybrid's stem, and the channels that come out of it."""
  wanted: dict[str, Shape] = {"conv_root/kernel": (7, 7, 3, root_width)}
  wanted |= _norm("gn_root", root_width)
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
        wanted |= _norm(f"{name}/gn{layer}", kernel[-1])
      channels = 4 * hidden
  return wanted, channels


def _positions(layout: Layout) -> dict[str, Shape]:
  size, positions = layout.size, layout.positions
  width, tables = size.width, positions.num_tables
  has_cls_row = layout.has_cls and layout.cls_position
  num_tokens = positions.side**2 + has_cls_row
  if positions.kind == "learned_1d":
    return {TABLE: (tables, num_tokens, width)}
  if positions.kind == "relative":
    per_head = (size.num_heads, width // size.num_heads)
    return {RELATIVE: (tables, 2 * num_tokens - 1, *per_head)}
  if positions.kind == "none":
    return {}
  half = (tables, positions.side, width // 2)
  wanted: dict[str, Shape] = {
    X_TABLE: half,
    Y_TABLE: half,
  }
  if has_cls_row:
    wanted[CLS_ROW] = (tables, 1, width)
  return wanted


def _attention(parent: str, layout: Layout) -> dict[str, Shape]:
  width, heads = layout.size.width, layout.size.num_heads
  head_size = width // heads
  room = f"{parent}/MultiHeadDotProductAttention_0"
  wanted: dict[str, Shape] = {}
  for name in ("query", "key", "value"):
    wanted[f"{room}/{name}/kernel"] = (width, heads, head_size)
    if layout.qkv_bias:
      wanted[f"{room}/{name}/bias"] = (heads, head_size)
  wanted[f"{room}/out/kernel"] = (heads, head_size, width)
  wanted[f"{room}/out/bias"] = (width,)
  return wanted


def _mlp(parent: str, size: sizes.Size) -> dict[str, Shape]:
  room = f"{parent}/MlpBlock_0"
  return {
    **_dense(f"{room}/Dense_0", (size.width, size.mlp_dim)),
    **_dense(f"{room}/Dense_1", (size.mlp_dim, size.width)),
  }


def _dense(name: str, kernel: Shape) -> dict[str, Shape]:
  return {f"{name}/kernel": kernel, f"{name}/bias": kernel[-1:]}


def _norm(name: str, width: int) -> dict[str, Shape]:
  return {f"{name}/scale": (width,), f"{name}/bias": (width,)}
