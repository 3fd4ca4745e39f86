"""OpenAI's CLIP and open_clip's networks, converted to Hugging Face's names.

A state dict determines the network, except for the form of the GELU and the
like, which open_clip_config.json next to it states.
"""

import re
from typing import Any

import numpy as np
from etils import epath

from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.weights.fields import COUNT, FLAG, NUMBER, NUMBERS, TEXT, Fields
from vit_jax.weights.image_processor import OPEN_CLIP, normalize_key
from vit_jax.weights.spellings.contract import SCRIPT_NOTE, Original
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.two_towers.huggingface import (
  NAMES,
  in_our_shapes,
)
from vit_jax.weights.spellings.vit import timm

CONFIG = OPEN_CLIP
_TRUNK = "visual.trunk."
# Numbers next to the tensors in OpenAI's files, and buffers.
_NUMBERS = {"input_resolution", "context_length", "vocab_size"}
_BUFFER = re.compile(r"(.*\.)?attn_mask")
_HEAD_SIZE = 64
_LAST_NORM = "vision_model.post_layernorm"
_HEAD_PROBE = "vision_model.head.probe"
# CLIP's last norm if it comes after the pooling; no file has this name.
_NORM_AFTER_POOL = f"{_LAST_NORM}_after_pool"

_LAYER = (
  (r"\.ln_1\.", ".layer_norm1."),
  (r"\.ln_2\.", ".layer_norm2."),
  (r"\.attn\.out_proj\.", ".self_attn.out_proj."),
  (r"\.attn\.in_proj_(weight|bias)$", r".self_attn.qkv.\1"),
  (r"\.mlp\.c_fc\.", ".mlp.fc1."),
  (r"\.mlp\.c_proj\.", ".mlp.fc2."),
)
_VISION = (
  (r"^visual\.class_embedding$", "embeddings.class_embedding"),
  (r"^visual\.positional_embedding$", "embeddings.position_embedding.weight"),
  (r"^visual\.conv1\.", "embeddings.patch_embedding."),
  (r"^visual\.ln_pre\.", "pre_layrnorm."),
  (r"^visual\.ln_post\.", "post_layernorm."),
  (r"^visual\.transformer\.resblocks\.", "encoder.layers."),
)
# timm's Vision Transformers, which are the image towers of open_clip's SigLIP.
_OF_TRUNK = (
  (r"^patch_embed\.proj\.", "embeddings.patch_embedding."),
  (r"^pos_embed$", "embeddings.position_embedding.weight"),
  (r"^blocks\.(\d+)\.norm([12])\.", r"encoder.layers.\1.layer_norm\2."),
  (r"^blocks\.(\d+)\.attn\.qkv\.", r"encoder.layers.\1.self_attn.qkv."),
  (r"^blocks\.(\d+)\.attn\.proj\.", r"encoder.layers.\1.self_attn.out_proj."),
  (r"^blocks\.(\d+)\.mlp\.", r"encoder.layers.\1.mlp."),
  (r"^norm\.", "post_layernorm."),
  (r"^attn_pool\.latent$", "head.probe"),
  (r"^attn_pool\.q\.", "head.q_proj."),
  (r"^attn_pool\.kv\.", "head.kv."),
  (r"^attn_pool\.proj\.", "head.attention.out_proj."),
  (r"^attn_pool\.norm\.", "head.layernorm."),
  (r"^attn_pool\.mlp\.", "head.mlp."),
)
_TEXT = (
  (r"^positional_embedding$", "embeddings.position_embedding.weight"),
  (r"^token_embedding\.", "embeddings.token_embedding."),
  (r"^ln_final\.", "final_layer_norm."),
  (r"^transformer\.resblocks\.", "encoder.layers."),
)
_JOINED = {
  ".qkv.": ("q_proj", "k_proj", "v_proj"),
  ".kv.": ("k_proj", "v_proj"),
}
_TOP = {"logit_scale", "logit_bias"}


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Converts tensors to Hugging Face's names and our shapes.

  Raises:
    UserError: The image tower is not supported, such as a ResNet.
  """
  del notes
  if "visual.layer1.0.conv1.weight" in tensors:
    raise UserError(
      f"{path} has a ResNet for its image tower, and of CLIP only Vision"
      " Transformers are read."
    )
  found: dict[str, np.ndarray] = {}
  for name, tensor in tensors.items():
    if name in _NUMBERS or _BUFFER.fullmatch(name):
      continue
    found[_respelled(name)] = tensor
  for name in list(found):
    for joined, parts in _JOINED.items():
      if joined in name:
        pieces = _split(found.pop(name), len(parts), name, path)
        for part, piece in zip(parts, pieces, strict=True):
          found[name.replace(joined, f".{part}.")] = piece
  # Stored as the matrix that features are multiplied by, not transposed as in
  # PyTorch.
  for theirs, ours in (
    ("visual.proj", "visual_projection.weight"),
    ("text_projection", "text_projection.weight"),
  ):
    if theirs in found:
      found[ours] = found.pop(theirs).T
  if "text_projection.bias" in found:
    for leaf in ("weight", "bias"):
      found[f"text_model.head.{leaf}"] = found.pop(f"text_projection.{leaf}")
  if "visual.head.proj.weight" in found:
    found["visual_projection.weight"] = found.pop("visual.head.proj.weight")
  if _pooling(_config(path).mapping("model_cfg"), found)[1]:
    for leaf in ("weight", "bias"):
      if f"{_LAST_NORM}.{leaf}" in found:
        found[f"{_NORM_AFTER_POOL}.{leaf}"] = found.pop(f"{_LAST_NORM}.{leaf}")
  return in_our_shapes(found)


def _respelled(name: str) -> str:
  if name in _TOP or name.startswith(("visual.proj", "visual.head.")):
    return name
  if name.startswith(_TRUNK):
    return "vision_model." + _first(name.removeprefix(_TRUNK), _OF_TRUNK)
  if name.startswith("visual."):
    return "vision_model." + _in_layer(_first(name, _VISION))
  name = name.removeprefix("text.")
  if name.startswith("text_projection"):
    return name
  return "text_model." + _in_layer(_first(name, _TEXT))


def _first(name: str, rows: tuple[tuple[str, str], ...]) -> str:
  """Rewrites a name by the first row that matches; unchanged if none does."""
  for pattern, replacement in rows:
    if re.search(pattern, name):
      return re.sub(pattern, replacement, name)
  return name


def _in_layer(name: str) -> str:
  return _first(name, _LAYER)


def _split(
  joined: np.ndarray, count: int, name: str, path: str
) -> list[np.ndarray]:
  if joined.ndim == 0 or len(joined) % count:
    raise UserError(
      f"{path}: '{name}' is of shape {joined.shape}, which is not {count}"
      " projections."
    )
  return np.split(joined, count)


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  config = _config(path)
  model = config.mapping("model_cfg")
  vision, text = model.mapping("vision_cfg"), model.mapping("text_cfg")
  widths = {
    tower: (0, *tensors.get(name, np.zeros(0)).shape)[-1]
    for tower, name in (
      ("image", "vision_model.embeddings.position_embedding.weight"),
      ("text", "text_model.embeddings.token_embedding.weight"),
    )
  }
  has_head = _HEAD_PROBE in tensors
  gelu = "exact"
  # Only OpenAI's CLIPs are published as TorchScript.
  if model.get("quick_gelu", FLAG, False) or SCRIPT_NOTE in notes:
    gelu = "quick"
  elif CONFIG not in config.path:
    notes.append(
      "No open_clip_config.json says which GELU there is: the exact one is"
      " taken (model.image.gelu='exact'); OpenAI's networks have 'quick'."
    )
  if has_head:
    image = _said_of_trunk(vision, widths["image"], path)
  else:
    image = {
      "num_heads": _num_heads(vision, widths["image"]),
      "pool": _pooling(model, tensors)[0],
      "gelu": _gelu(vision, gelu),
    }
  if CONFIG not in config.path:
    if not has_head:
      image["num_heads"] = timm.usual_num_heads(widths["image"])
    if SCRIPT_NOTE not in notes:
      notes.append(
        f"No {CONFIG} says how many heads the image tower has:"
        f" {image['num_heads']} of size"
        f" {widths['image'] // image['num_heads']} are taken"
        f" (model.image.num_heads={image['num_heads']})."
      )
  pool = text.get("pool_type", TEXT, "argmax")
  if pool not in ("argmax", "last"):
    raise text.refusal("pool_type", "is neither 'argmax' nor 'last'")
  return {
    "pos_embedding_resize": "bicubic_antialias",
    "normalize": _normalize(config, notes),
    "image": {"layer_norm_eps": _epsilon(vision), **image},
    "text": {
      "num_heads": text.get(
        "heads", COUNT, max(1, widths["text"] // _HEAD_SIZE)
      ),
      "causal": not text.get("no_causal_mask", FLAG, False),
      "pool": "last" if pool == "last" else "eot",
      "gelu": _gelu(text, gelu),
      "layer_norm_eps": _epsilon(text),
    },
  }


def _pooling(model: Fields, tensors: Tensors) -> tuple[str, bool]:
  """Returns CLIP's image pooling and whether the last norm follows it.

  Args:
    model: The section model_cfg of the config.
    tensors: Tensors by Hugging Face's names; a timm tower has its own head.

  Raises:
    UserError: The pooling is not one of ours.
  """
  if _HEAD_PROBE in tensors:
    return "map", False
  vision = model.mapping("vision_cfg")
  pool = vision.get("pool_type", TEXT, "tok")
  if pool not in ("tok", "avg"):
    raise vision.refusal(
      "pool_type", "is neither 'tok' nor 'avg', and no other one is read"
    )
  if pool == "tok":  # A single token; the norm acts on it alone.
    return "cls", False
  return "gap", vision.get("final_ln_after_pool", FLAG, False)


def _gelu(tower: Fields, otherwise: str) -> str:
  """Returns the form of a tower's GELU, which its settings may override."""
  is_tanh = tower.mapping("act_kwargs").values.get("approximate") == "tanh"
  return "tanh" if is_tanh else otherwise


def _config(path: str) -> Fields:
  """Reads open_clip_config.json next to a file or in a directory; else {}."""
  where = epath.Path(path)
  directory = where if where.is_dir() else where.parent
  if (directory / CONFIG).exists():
    return Fields.read(directory / CONFIG)
  return Fields(path, {})


def _normalize(config: Fields, notes: list[str]) -> str:
  settings = config.mapping("preprocess_cfg")
  if "mean" in settings or "std" in settings:
    mean, deviation = pixels.parse("clip")
    return normalize_key(
      settings,
      settings.get("mean", NUMBERS, mean),
      settings.get("std", NUMBERS, deviation),
    )
  notes.append(
    f"No {CONFIG} says how pixels are normalised: CLIP's mean and deviation are"
    " taken (model.normalize='clip')."
  )
  return "clip"


def _said_of_trunk(vision: Fields, width: int, path: str) -> dict[str, Any]:
  """Returns the keys implied by timm's name of the image tower."""
  name = vision.get("timm_model_name", TEXT, "") or "vit_"
  kernel = np.zeros((width or _HEAD_SIZE, 1, 1, 1))
  said = timm.said_of_encoder(
    Fields(vision.path, {"architecture": name}),
    {"patch_embed.proj.weight": kernel},
    path,
    [],
  )
  found = {key: said[key] for key in ("num_heads", "gelu", "layer_norm_eps")}
  if "head_width" in vision:
    found["num_heads"] = _num_heads(vision, width)
  return found


def _num_heads(vision: Fields, width: int) -> int:
  return max(1, width // vision.get("head_width", COUNT, _HEAD_SIZE))


def _epsilon(tower: Fields) -> float:
  return tower.mapping("norm_kwargs").get("eps", NUMBER, 1e-5)


ORIGINAL = Original(
  label="CLIP and open_clip",
  names=Names(
    rows=(*NAMES.rows, ("image/fc_norm", _NORM_AFTER_POOL)),
    required=NAMES.required,
  ),
  said=_said,
  prepare=_prepare,
  marks=("visual.conv1.weight", f"{_TRUNK}patch_embed.proj.weight"),
)
