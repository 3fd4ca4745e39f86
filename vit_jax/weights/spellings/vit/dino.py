"""facebookresearch/dino and dinov2 checkpoints, converted to timm's names.

Their backbones are ViTs with timm's names, except for registers and SwiGLU; the
files also hold the projection heads and the embedding of masked patches.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.weights.spellings.contract import Beside
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.vit import swiglu

# DINO's head, DINOv2's two, and those wrapped by their training code.
_OF_HEADS = re.compile(r"(head\.(mlp|last_layer)|dino_head|ibot_head)\..+")
# Our name, and the places of theirs.
_HEADS = (
  ("dino_head", "head."),
  ("dino_head", "dino_head."),
  ("ibot_head", "ibot_head."),
)
_LINEAR = ("weight", "bias")
_MASK_TOKEN = "mask_token"
_REGISTERS = "register_tokens"
# Blocks in chunks are numbered consecutively: 'blocks.3.39.'.
_CHUNKED = re.compile(r"^blocks\.\d+\.(\d+)\.")
_SWIGLU = (".mlp.w12", ".mlp.gate", ".mlp.fc1")
_LAST_OF_SWIGLU = re.compile(r"\.mlp\.w3\.")


def timms(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Renames the network's tensors to timm's; notes list what is left out.

  Raises:
    UserError: A SwiGLU cannot be split.
  """
  found: dict[str, np.ndarray] = {}
  num_left_out = 0
  for name, tensor in tensors.items():
    if _OF_HEADS.fullmatch(name):
      num_left_out += 1
      continue
    name = _CHUNKED.sub(r"blocks.\1.", name)
    name = _LAST_OF_SWIGLU.sub(".mlp.fc2.", name)
    found["reg_token" if name == _REGISTERS else name] = tensor
  if num_left_out:
    notes.append(
      f"The projection head ({num_left_out} tensors) is not part of the"
      " network."
    )
  found.pop(_MASK_TOKEN, None)
  return swiglu.taken_apart(found, *_SWIGLU, path)


def beside(tensors: Tensors) -> Beside:
  """Returns the heads and the masked patch embedding that a file has."""
  found: dict[str, Any] = {}
  token, cls = tensors.get(_MASK_TOKEN), tensors.get("cls_token")
  # A decoder's mask token, without the decoder, has another width.
  if token is not None and np.size(token) == np.size(cls):
    found[_MASK_TOKEN] = token.reshape(1, 1, -1)
  for name, prefix in _HEADS:
    head = _head(tensors, prefix)
    if head is not None:
      found[name] = head
  return found, _objective(found) if "dino_head" in found else None


def state(contents: Mapping[Any, Any]) -> dict[str, np.ndarray]:
  """Returns the centre that a DINO training checkpoint holds in its loss."""
  loss = contents.get("dino_loss")
  center = loss.get("center") if isinstance(loss, Mapping) else None
  return {} if center is None else {"center": np.ravel(center)}


def _head(tensors: Tensors, prefix: str) -> dict[str, Any] | None:
  """Returns a head of three layers and its prototypes; None if none."""
  layers = [f"{prefix}mlp.{number}." for number in (0, 2, 4)]
  last = f"{prefix}last_layer."
  # Before torch 2.0 and since.
  for length, direction in (
    ("weight_g", "weight_v"),
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
  ):
    wanted = [f"{layer}{kind}" for layer in layers for kind in _LINEAR]
    wanted += [last + length, last + direction]
    if all(name in tensors for name in wanted):
      break
  else:
    return None
  head: dict[str, Any] = {
    f"Dense_{number}": {
      "kernel": tensors[f"{layer}weight"].T,
      "bias": tensors[f"{layer}bias"],
    }
    for number, layer in enumerate(layers)
  }
  prototypes = head["prototypes"] = {"kernel": tensors[last + direction]}
  if np.any(tensors[last + length] != 1):
    prototypes["length"] = tensors[last + length]
  return head


def _objective(found: Mapping[str, Any]) -> schema.Objective:
  """Returns the heads' objective, as far as their shapes determine it."""
  head, patch_head = found["dino_head"], found.get("ibot_head")
  number, bottleneck = head["prototypes"]["kernel"].shape
  keys = {
    "prototypes": number,
    "bottleneck": bottleneck,
    "hidden_width": head["Dense_0"]["kernel"].shape[1],
    "unit_prototypes": "length" not in head["prototypes"],
  }
  if _MASK_TOKEN not in found:
    return schema.DINO(**keys)
  if patch_head is not None:
    keys["patch_bottleneck"] = patch_head["prototypes"]["kernel"].shape[1]
  return schema.DINOv2(**keys, separate_patch_head=patch_head is not None)


def resize(tensors: Tensors, notes: list[str]) -> str | None:
  """Returns DINO's or DINOv2's `pos_embedding_resize`; None for others.

  DINO's networks differ from DeiT's and MAE's only in this: like MAE's, they
  have no head, but their class token's position is not zero, as MAE's fixed one
  is.

  Args:
    tensors: Tensors by timm's names.
    notes: Extended by a note if the network is only likely to be DINO's.
  """
  if "reg_token" in tensors:
    return "bicubic_antialias"
  if "blocks.0.ls1.gamma" in tensors:
    return "bicubic_offset"
  table = tensors["pos_embed"]
  is_square = table.ndim == 3 and table.shape[1] > 0
  if "head.weight" in tensors or not is_square or not table[:, 0].any():
    return None
  notes.append(
    "It has no head: its positions are taken for DINO's, which are resized with"
    " an offset (model.pos_embedding_resize='bicubic_offset')."
  )
  return "bicubic_offset"
