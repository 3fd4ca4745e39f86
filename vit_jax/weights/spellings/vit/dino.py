"""Checkpoints of facebookresearch/dino and dinov2, brought to timm's names.

Their backbones are ViTs by timm's names but for registers and SwiGLU; beside
them come the projection heads and the embedding of masked patches.
"""

import re

import numpy as np

from vit_jax.weights.spellings.contract import Beside
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.vit import swiglu

# DINO's head, DINOv2's two, and those that their training code wraps.
_OF_HEADS = re.compile(r"(head\.(mlp|last_layer)|dino_head|ibot_head)\..+")
_MASK_TOKEN = "mask_token"
_REGISTERS = "register_tokens"
# Blocks in chunks are numbered through: 'blocks.3.39.'.
_CHUNKED = re.compile(r"^blocks\.\d+\.(\d+)\.")
_SWIGLU = (".mlp.w12", ".mlp.gate", ".mlp.fc1")
_LAST_OF_SWIGLU = re.compile(r"\.mlp\.w3\.")


def timms(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """The network's tensors by timm's names; notes tell what is left out.

  Raises:
    UserError: A SwiGLU does not come apart.
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
    notes.append(f"The projection head ({num_left_out} tensors) is left out.")
  found.pop(_MASK_TOKEN, None)
  return swiglu.taken_apart(found, *_SWIGLU, path)


def beside(tensors: Tensors) -> Beside:
  """The embedding of masked patches, if there is one."""
  token, cls = tensors.get(_MASK_TOKEN), tensors.get("cls_token")
  # A decoder's, without the decoder, is of another width.
  if token is None or np.size(token) != np.size(cls):
    return {}, None
  return {_MASK_TOKEN: token.reshape(1, 1, -1)}, None


def resize(tensors: Tensors, notes: list[str]) -> str | None:
  """`pos_embedding_resize` of DINO and DINOv2; None for other networks.

  DINO's differ from DeiT's and MAE's in nothing but this: they have no head,
  as MAE's, and a position of the class token that is not zero, as MAE's fixed
  one is.

  Args:
    tensors: By timm's names.
    notes: Takes a note where the network is only likely to be DINO's.
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
