"""Detection of a ViT or hybrid from the names and shapes of its parameters."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from vit_jax.errors import UserError
from vit_jax.models.detection import (
  Detected,
  Shape,
  columns,
  count,
  shape_of,
  units,
)
from vit_jax.models.layers import relative_bias_rows
from vit_jax.models.resnet.sizes import ROOT_WIDTH, stem_stride
from vit_jax.models.vit import shapes as vit_shapes
from vit_jax.models.vit import sizes

_BLOCK = re.compile(r"Transformer/encoderblock_(\d+)/")
_ATTENTION = "Transformer/encoderblock_0/MultiHeadDotProductAttention_0"
_QUERY = f"{_ATTENTION}/query"
_MLP = "Transformer/encoderblock_0/MlpBlock_0"
_HIDDEN = f"{_MLP}/Dense_0/kernel"
_HAS_LAYER_SCALE = "Transformer/encoderblock_0/layer_scale_0"
# Initial value, unknown from files and irrelevant after initialisation.
_LAYER_SCALE = 1e-4
_IMAGE_SIZE = 224
_AFTER_POOLING = ("pre_logits/kernel", "head/kernel")


def matches(names: Iterable[str]) -> bool:
  """Tells whether `names` are parameters of a ViT or hybrid, by our names."""
  return any(name.startswith("Transformer/") for name in names)


def detect(
  shapes: Mapping[str, Shape], path: str, said: Mapping[str, Any]
) -> Detected:
  """Detects the network; see `Family.detect`."""
  size = _size(shapes, path)
  pooling, assumed = _pooling(shapes, said)
  kind, side, num_tables = _positions(shapes, path)
  keys = {
    **sizes.vit_keys(size),
    **pooling,
    "num_classes": columns(shapes, "head/kernel", path),
    "representation_size": columns(shapes, "pre_logits/kernel", path),
    "registers": _registers(shapes, path),
    "norm_after_pool": "fc_norm/scale" in shapes,
    "qkv_bias": f"{_QUERY}/bias" in shapes,
    "key_bias": _has_key_bias(shapes),
    "patch_bias": "embedding/bias" in shapes,
    "pre_norm": "norm_pre/scale" in shapes,
    "mlp": "swiglu" if f"{_MLP}/gate/kernel" in shapes else "gelu",
    "mlp_norm": f"{_MLP}/LayerNorm_0/scale" in shapes,
    "layer_scale": _LAYER_SCALE if _HAS_LAYER_SCALE in shapes else None,
    **said,
    "distillation": _distillation(shapes, said),
  }
  if kind != "none":
    keys.setdefault("pos_embedding", kind)
    place = _place(kind, num_tables, size.depth)
    keys.setdefault("pos_embedding_at", place)
    keys["cls_position"] = _has_cls_position(shapes)
    image_size = side * size.patch_size
    # The table cannot tell a size that is not a whole number of patches.
    keys.setdefault("image_size", image_size)
    if size.grid(keys["image_size"]) != side:
      keys["image_size"] = image_size
  elif "pos_embedding" not in said:
    keys["pos_embedding"] = "sincos2d"
    keys.setdefault(
      "image_size", max(1, _IMAGE_SIZE // size.patch_size) * size.patch_size
    )
    assumed.append(
      "It has no position embedding: the fixed one of sines and cosines is"
      " taken (model.pos_embedding='sincos2d'), at"
      f" {keys['image_size']} pixels."
    )
  if "image_size" in keys:
    left_over = keys["image_size"] % size.patch_size
    keys.setdefault("drop_remainder", left_over != 0)
  return Detected(keys, assumed)


def _size(shapes: Mapping[str, Shape], path: str) -> sizes.Size:
  patch, _, _, width = shape_of(shapes, "embedding/kernel", 4, path)
  _, num_heads, head_size = shape_of(shapes, f"{_QUERY}/kernel", 3, path)
  _, mlp_dim = shape_of(shapes, _HIDDEN, 2, path)
  if num_heads * head_size != width:
    raise UserError(
      f"{path} has {num_heads} heads of {head_size} units, which do not make"
      f" up its width of {width}; such a model is not supported."
    )
  stem_blocks, stem_width = None, ROOT_WIDTH
  if "conv_root/kernel" in shapes:
    stem_blocks = units(shapes)
    stem_width = shape_of(shapes, "conv_root/kernel", 4, path)[-1]
  return sizes.Size(
    width=width,
    depth=count(_BLOCK, shapes, 0),
    num_heads=num_heads,
    mlp_dim=mlp_dim,
    patch_size=patch * stem_stride(stem_blocks),
    stem_blocks=stem_blocks,
    stem_width=stem_width,
  )


def _pooling(
  shapes: Mapping[str, Shape], said: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
  """Keys for pooling, as far as parameters tell, and assumptions."""
  has_cls, assumed = "cls" in shapes, []
  if "MAPHead_0/probe" in shapes:
    pool = "map"
  elif "pool" in said:
    pool = said["pool"]
  elif has_cls:
    pool = "cls_gap" if _reads_two(shapes) else "cls"
  else:
    pool = "gap"
    assumed.append(
      "It has neither a class token nor an attention head: its tokens are"
      " averaged (model.pool='gap')."
    )
  keys: dict[str, Any] = {"pool": pool}
  if has_cls != sizes.has_cls(pool, None):
    keys["cls_token"] = has_cls
  return keys, assumed


def _reads_two(shapes: Mapping[str, Shape]) -> bool:
  """Tells whether the first layer after the pooling takes two joined tokens."""
  first = next((n for n in _AFTER_POOLING if n in shapes), None)
  width = shapes["embedding/kernel"][-1]  # A class token may be damaged.
  return first is not None and shapes[first][:1] == (2 * width,)


def _has_key_bias(shapes: Mapping[str, Shape]) -> bool:
  """Returns False if queries have a bias and keys do not."""
  biased = [f"{_ATTENTION}/{name}/bias" in shapes for name in ("query", "key")]
  return biased != [True, False]


def _registers(shapes: Mapping[str, Shape], path: str) -> int:
  if "registers" not in shapes:
    return 0
  _, num_registers, _ = shape_of(shapes, "registers", 3, path)
  return num_registers


def _distillation(shapes: Mapping[str, Shape], said: Mapping[str, Any]) -> str:
  if "dist" not in shapes:
    return "none"
  if "head_dist/kernel" in shapes:
    return "average"
  has_head = "head/kernel" in shapes
  return "token" if has_head else said.get("distillation", "average")


def _has_cls_position(shapes: Mapping[str, Shape]) -> bool:
  """Tells by the number of rows, as a square plus one is never a square."""
  if "cls" not in shapes:
    return True
  if vit_shapes.X_TABLE in shapes:
    return vit_shapes.CLS_ROW in shapes
  rows = shapes.get(vit_shapes.TABLE, ())[1:2]
  return not rows or rows[0] == 0 or math.isqrt(rows[0]) ** 2 != rows[0]


def _positions(shapes: Mapping[str, Shape], path: str) -> tuple[str, int, int]:
  """Kind of positions, patches along a side, and number of tables."""
  num_prefix = 0
  if _has_cls_position(shapes):
    num_prefix = sum(name in shapes for name in ("cls", "dist"))
  if vit_shapes.TABLE in shapes:
    kind = "learned_1d"
    num_tables, num_tokens, _ = shape_of(shapes, vit_shapes.TABLE, 3, path)
  elif vit_shapes.X_TABLE in shapes:
    num_tables, side, _ = shape_of(shapes, vit_shapes.X_TABLE, 3, path)
    return "learned_2d", side, num_tables
  elif (bias := _relative_bias(shapes)) is not None:
    name, num_tables = bias
    rows, _ = shape_of(shapes, name, 2, path)
    side = relative_bias_rows.side(rows)
    if side is None:
      raise UserError(
        f"{path}: '{name}' has {rows} rows, which are not the offsets within a"
        " square of patches and three for the class token; only models of"
        " square images are supported."
      )
    return "relative_bias", side, num_tables
  elif vit_shapes.RELATIVE in shapes:
    kind = "relative"
    num_tables, offsets, *_ = shape_of(shapes, vit_shapes.RELATIVE, 4, path)
    num_tokens = (offsets + 1) // 2
  else:
    return "none", 0, 0
  num_patches = max(num_tokens - num_prefix, 0)
  side = math.isqrt(num_patches)
  if not side or side * side != num_patches:
    raise UserError(
      f"{path}: its position embedding is for {num_tokens - num_prefix}"
      " patches, which make up no square; only models of square images are"
      " supported."
    )
  return kind, side, num_tables


def _relative_bias(shapes: Mapping[str, Shape]) -> tuple[str, int] | None:
  """Name of a table of relative biases and their number; 0 if shared."""
  if vit_shapes.SHARED_BIAS in shapes:
    return vit_shapes.SHARED_BIAS, 0
  first = vit_shapes.LAYER_BIAS.format(0)
  return (first, count(_BLOCK, shapes, 0)) if first in shapes else None


def _place(kind: str, num_tables: int, depth: int) -> str:
  """The value of `pos_embedding_at` that has so many tables."""
  if kind == "relative_bias":
    return "every_layer" if num_tables else "every_layer_shared"
  if kind == "relative":
    return "every_layer_shared" if num_tables == 1 < depth else "stem"
  return "stem" if num_tables == 1 else "every_layer"
