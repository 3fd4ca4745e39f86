"""timm's tensors brought to the parts that our networks have."""

import math
import re
from collections.abc import Mapping

import numpy as np

from vit_jax.errors import UserError

Tensors = Mapping[str, np.ndarray]

# What our networks do not have: a pattern of names, and what it is of.
_UNKNOWN = (
  (r"^reg_token$", "register tokens"),
  (r"^dist_token$|^head_dist\.", "a distillation token"),
  (r"^norm_pre\.", "a norm before the blocks, as CLIP has"),
  (r"^patch_embed\.norm\.", "a norm of the patches"),
  (r"\.running_mean$", "batch norm"),
  (r"\.attn\.[qk]_norm\.", "normalised queries and keys"),
  (r"\.attn\.norm\.|\.mlp\.norm\.", "norms inside the branches"),
  (r"rel_pos|relative_position", "relative positions"),
  (r"rope|\.freqs$", "rotary positions"),
  (r"\.mlp\.(w12|w1|fc1_g)\.", "SwiGLU"),
  (r"\.(attns|ffns)\.\d", "parallel branches"),
  (r"\.attn\.lambda_", "differential attention"),
)
_QKV = re.compile(r"^(blocks\.\d+\.attn|attn_pool)\.(qkv|kv)\.(weight|bias)$")
_LAYER_SCALE = re.compile(r"^(blocks\.\d+)\.ls([12])\.gamma$")
_SCALED = {"1": "attn.proj", "2": "mlp.fc2"}
_BLOCK = re.compile(r"^blocks\.(\d+)\.")


def shape(tensors: Tensors, name: str, rank: int, path: str) -> tuple[int, ...]:
  """The shape of a tensor that every such network has.

  Raises:
    UserError: it is missing, of another rank, or empty.
  """
  if name not in tensors:
    some = ", ".join(sorted(tensors)[:4]) or "none"
    raise UserError(
      f"{path} is no ViT or BiT of timm's: it has no '{name}'. Its tensors:"
      f" {some}{', ...' if len(tensors) > 4 else ''}. (Hugging Face's files are"
      " read with the config.json beside them.)"
    )
  found = tensors[name].shape
  if len(found) != rank or 0 in found:
    raise UserError(
      f"{path}: '{name}' is of shape {found}, but {rank} dimensions are"
      " wanted, none of them 0."
    )
  return found


def num_blocks(tensors: Tensors) -> int:
  """How many blocks the names speak of."""
  return len({match[1] for name in tensors if (match := _BLOCK.match(name))})


def usual(
  tensors: Tensors, path: str, notes: list[str]
) -> dict[str, np.ndarray]:
  """The tensors of a plain ViT that computes the same.

  LayerScale is multiplied into the projections that it follows, and joined
  projections are taken apart.

  Args:
    tensors: of the file.
    path: of the file, for messages.
    notes: gets a sentence for what was changed.

  Raises:
    UserError: the file has a part that our networks have not.
  """
  for pattern, what in _UNKNOWN:
    name = next((name for name in tensors if re.search(pattern, name)), None)
    if name is not None:
      raise UserError(
        f"{path} has {what} ('{name}'), which our networks do not have, so it"
        " cannot be loaded."
      )
  scaled = _without_layer_scale(tensors, path)
  if scaled.keys() != tensors.keys():
    notes.append("LayerScale is multiplied into the projections before it.")
  _refuse_swiglu(scaled, path)
  return _without_joined_projections(scaled, path)


def with_class_row(
  tensors: Tensors, has_cls: bool, name: str, path: str
) -> tuple[dict[str, np.ndarray], int]:
  """Tensors whose position embedding has a row for the class token.

  timm adds some before the token is joined: a row of zeros is the same.

  Args:
    tensors: of the network.
    has_cls: whether there is a class token.
    name: of the position embedding.
    path: of the file, for messages.

  Returns:
    The tensors, and the patches along a side of the image.

  Raises:
    UserError: the patches make up no square.
  """
  _, rows, width = shape(tensors, name, 3, path)
  for num_prefix in (int(has_cls), 0):
    side = math.isqrt(max(rows - num_prefix, 0))
    if side and side * side == rows - num_prefix:
      break
  else:
    raise UserError(
      f"{path}: the position embedding has {rows} rows, which are no square of"
      " patches with or without a class token; only square images are"
      " supported."
    )
  table = tensors[name]
  if num_prefix < has_cls:
    zeros = np.zeros((len(table), 1, width), np.float32)
    table = np.concatenate([zeros, table], axis=1)
  return {**tensors, name: table}, side


def _without_layer_scale(tensors: Tensors, path: str) -> dict[str, np.ndarray]:
  found = dict(tensors)
  for name in tensors:
    match = _LAYER_SCALE.match(name)
    if not match:
      continue
    gamma = found.pop(name)
    projection = f"{match[1]}.{_SCALED[match[2]]}"
    for part in ("weight", "bias"):
      tensor = found.get(f"{projection}.{part}")
      if tensor is None or tensor.shape[:1] != gamma.shape:
        raise UserError(f"{path}: '{name}' does not fit '{projection}.{part}'.")
      factor = gamma.reshape(-1, *[1] * (tensor.ndim - 1))
      found[f"{projection}.{part}"] = tensor * factor
  return found


def _refuse_swiglu(tensors: Tensors, path: str) -> None:
  """The joined form of SwiGLU has the usual names."""
  first, second = (
    tensors.get(f"blocks.0.mlp.{name}.weight") for name in ("fc1", "fc2")
  )
  if (
    first is not None
    and second is not None
    and first.ndim == second.ndim == 2
    and first.shape[0] == 2 * second.shape[1]
  ):
    raise UserError(
      f"{path} has SwiGLU (the MLPs' first layer is twice as wide as the"
      " second takes), which our networks do not have, so it cannot be loaded."
    )


def _without_joined_projections(
  tensors: Tensors, path: str
) -> dict[str, np.ndarray]:
  found = dict(tensors)
  for name in tensors:
    match = _QKV.match(name)
    if not match:
      continue
    joined = found.pop(name)
    parts = match[2]
    if joined.ndim == 0 or len(joined) % len(parts):
      raise UserError(
        f"{path}: '{name}' is of shape {joined.shape}, which is not"
        f" {len(parts)} projections."
      )
    for part, tensor in zip(parts, np.split(joined, len(parts)), strict=True):
      found[f"{match[1]}.{part}.{match[3]}"] = tensor
  return found
