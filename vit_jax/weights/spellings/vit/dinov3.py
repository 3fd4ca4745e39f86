"""DINOv3, in the formats of facebookresearch/dinov3 and timm.

Blocks have the names of EVA-02 in timm. The authors' files also hold the
periods of the rotary positions, which are checked here, and masks of biases,
which are zero for keys.
"""

import dataclasses
import re
from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.fields import NUMBER, Fields
from vit_jax.weights.spellings.contract import Original, Timm
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.vit import dino, eva02, timm

NAMES = dataclasses.replace(eva02.TIMM.names, by_halves=True)
BASE = 100.0
# What all networks of DINOv3 have.
POSITIONS: dict[str, Any] = {
  "pos_embedding": "none",
  "rope": True,
  "rope_coordinates": "unit",
}
_PERIODS = "rope_embed.periods"
_REGISTERS = "storage_tokens"
_MASK = ".bias_mask"
_KEY_BIAS = re.compile(r"blocks\.\d+\.attn\.k\.bias")
# A norm for crops of training alone, and one that others have for tokens.
_LOCAL_NORM, _CLS_NORM = "local_cls_norm.", "cls_norm."
# Data in the names of the authors' files -> their normalisation of pixels.
_OF_DATA = {
  "lvd1689m": "imagenet",
  "sat493m": "0.43,0.411,0.296/0.213,0.156,0.143",
}
_ARGUMENTS = {
  "rope_type": "dinov3",
  "rope_rotate_half": True,
  "use_rot_pos_emb": True,
  "use_abs_pos_emb": False,
}


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Converts tensors to timm's ViT names, with every layer separate.

  Raises:
    UserError: The file has a norm or rotary positions that our networks do not
      have, or a joined layer cannot be split.
  """
  if any(name.startswith(_CLS_NORM) for name in tensors):
    raise UserError(
      f"{path} has a norm of the class token alone ('{_CLS_NORM}weight'), which"
      " our networks do not have, so it cannot be loaded."
    )
  _check_periods(tensors, path)
  found: dict[str, np.ndarray] = {}
  for name, tensor in tensors.items():
    if name == _PERIODS or name.endswith(_MASK):
      continue
    if name.startswith(_LOCAL_NORM):
      continue
    mask = tensors.get(f"{name}_mask")
    # A mask is not a number until weights are loaded.
    if mask is not None and np.shape(mask) == tensor.shape:
      tensor = np.where(np.asarray(mask) == 0, 0, tensor)
    found["reg_token" if name == _REGISTERS else name] = tensor
  found = dict(dino.timms(found, path, notes))
  found = dict(eva02.TIMM.prepare(found, path, notes))
  biases = [name for name in found if _KEY_BIAS.fullmatch(name)]
  if not any(np.any(found[name]) for name in biases):
    found = {name: x for name, x in found.items() if name not in biases}
  return found


def _check_periods(tensors: Tensors, path: str) -> None:
  periods = tensors.get(_PERIODS)
  if periods is None:
    return
  number = np.size(periods)
  wanted = BASE ** (np.arange(number) / max(1, number))
  # Files store them in bfloat16.
  if not number or not np.allclose(np.ravel(periods), wanted, rtol=2**-8):
    raise UserError(
      f"{path}: '{_PERIODS}' of shape {np.shape(periods)} holds other rotary"
      f" positions than DINOv3's, powers of {BASE:g}, so it cannot be loaded."
    )


def _told(tensors: Tensors, path: str) -> dict[str, Any]:
  """Returns the number of heads, which follows from the periods of a head."""
  del path
  width = np.size(tensors.get("cls_token", ()))
  head_size = 4 * np.size(tensors.get(_PERIODS, ()))
  if not head_size or not width or width % head_size:
    return {}
  return {"num_heads": width // head_size}


def _said_by_timm(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  found = timm.said_of_encoder(config, tensors, path, notes)
  for key in ("standardization", "pos_embedding_resize"):
    del found[key]  # It has neither a stem nor a table.
  arguments = config.mapping("model_args")
  for key, wanted in _ARGUMENTS.items():
    if arguments.values.get(key, wanted) != wanted:
      raise arguments.refusal(key, f"is not {wanted!r}, as in DINOv3")
  if "num_heads" not in arguments:
    width = len(tensors["patch_embed.proj.weight"])
    found["num_heads"] = width // (128 if width == 4096 else 64)
  return {
    **found,
    **POSITIONS,
    "rope_base": arguments.get("rope_temperature", NUMBER, BASE),
    "gelu": timm.gelu(config),
    "layer_norm_eps": 1e-5,
  }


def _said_by_authors(
  tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  found = _said_by_timm(Fields(path, {}), tensors, path, [])
  name = path.rpartition("/")[2].lower()
  data = [data for data in _OF_DATA if data in name]
  if len(data) != 1:
    notes.append(
      "The name of the file does not say what DINOv3 learned from: pixels are"
      " normalised as for LVD-1689M (model.normalize='imagenet'); weights of"
      f" satellite images, SAT-493M, want '{_OF_DATA['sat493m']}'."
    )
  normalize = _OF_DATA[data[0] if len(data) == 1 else "lvd1689m"]
  return {**found, "pool": "cls", "normalize": normalize}


TIMM = Timm(
  label="vit_*_dinov3",
  architectures=r"vit_\w+_dinov3",
  names=NAMES,
  # Of the authors' files, as timm's have no mark of their own.
  marks=(_PERIODS, _REGISTERS),
  prepare=_prepare,
  said=_said_by_timm,
  arguments=eva02.TIMM.arguments
  | {
    *_ARGUMENTS,
    "rope_temperature",
    "rope_shift_coords",
    "rope_jitter_coords",
    "rope_rescale_coords",
    "swiglu_align_to",
  },
)
ORIGINAL = Original(
  label="DINOv3",
  names=NAMES,
  marks=(_PERIODS, _REGISTERS),
  prepare=_prepare,
  said=_said_by_authors,
  beside=lambda tensors, path: dino.beside(tensors),
  told=_told,
)
