"""timm's Vision Transformers and hybrids, converted to our parts.

Tensors determine the architecture; config.json and the architecture's name
determine the rest, such as the number of heads.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.models.layers.position_resize import square_side
from vit_jax.weights.fields import COUNT, TEXT, Fields
from vit_jax.weights.spellings.contract import Assumed, Timm
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.vit import dino, swiglu

_BLOCK = "Transformer/encoderblock_{0}"
_STEM = "patch_embed.backbone"


def _transformer(ours: str, theirs: str) -> list[tuple[str, str]]:
  """Lists the parts shared by encoder blocks and attention pooling heads."""
  attention = f"{ours}/MultiHeadDotProductAttention_0"
  return [
    # Query, key and value are joined in files; `_prepare` splits them.
    (f"{attention}/query", f"{theirs}.q"),
    (f"{attention}/key", f"{theirs}.k"),
    (f"{attention}/value", f"{theirs}.v"),
    (f"{attention}/out", f"{theirs}.proj"),
  ]


def _mlp(ours: str, theirs: str) -> list[tuple[str, str]]:
  return [
    (f"{ours}/MlpBlock_0/gate", f"{theirs}.mlp.gate"),
    (f"{ours}/MlpBlock_0/Dense_0", f"{theirs}.mlp.fc1"),
    (f"{ours}/MlpBlock_0/Dense_1", f"{theirs}.mlp.fc2"),
  ]


def _stem_units() -> list[tuple[str, str]]:
  ours, theirs = "block{1}/unit{1}", f"{_STEM}.stages.{{0}}.blocks.{{0}}"
  rows = []
  for number in (1, 2, 3):
    rows.append((f"{ours}/conv{number}", f"{theirs}.conv{number}"))
    rows.append((f"{ours}/gn{number}", f"{theirs}.norm{number}"))
  rows.append((f"{ours}/conv_proj", f"{theirs}.downsample.conv"))
  rows.append((f"{ours}/gn_proj", f"{theirs}.downsample.norm"))
  return rows


_NAMES = Names(
  rows=(
    ("embedding", "patch_embed.proj"),
    ("cls", "cls_token"),
    ("dist", "dist_token"),
    ("registers", "reg_token"),
    ("Transformer/posembed_input/pos_embedding", "pos_embed"),
    ("norm_pre", "norm_pre"),
    (f"{_BLOCK}/LayerNorm_0", "blocks.{0}.norm1"),
    *_transformer(_BLOCK, "blocks.{0}.attn"),
    (f"{_BLOCK}/LayerNorm_1", "blocks.{0}.norm2"),
    *_mlp(_BLOCK, "blocks.{0}"),
    (f"{_BLOCK}/MlpBlock_0/LayerNorm_0", "blocks.{0}.mlp.norm"),
    ("Transformer/encoder_norm", "norm"),
    ("fc_norm", "fc_norm"),
    ("MAPHead_0/probe", "attn_pool.latent"),
    *_transformer("MAPHead_0", "attn_pool"),
    ("MAPHead_0/LayerNorm_0", "attn_pool.norm"),
    *_mlp("MAPHead_0", "attn_pool"),
    ("pre_logits", "pre_logits.fc"),
    ("head", "head"),
    ("head_dist", "head_dist"),
    (f"{_BLOCK}/layer_scale_0", "blocks.{0}.ls1.gamma"),
    (f"{_BLOCK}/layer_scale_1", "blocks.{0}.ls2.gamma"),
    ("conv_root", f"{_STEM}.stem.conv"),
    ("gn_root", f"{_STEM}.stem.norm"),
    # A stem without stages is just the root.
    ("conv_root", f"{_STEM}.conv"),
    ("gn_root", f"{_STEM}.norm"),
    *_stem_units(),
  ),
  required=("patch_embed.proj.weight",),
)

# Patterns of names without a counterpart in our networks, and their part.
_UNKNOWN = (
  (r"^patch_embed\.norm\.", "a norm of the patches"),
  (r"\.running_mean$", "batch norm"),
  (r"\.attn\.[qk]_norm\.", "normalised queries and keys"),
  (r"\.attn\.norm\.", "norms inside the branches"),
  (r"rel_pos|relative_position", "relative positions"),
  (r"rope|\.freqs$", "rotary positions"),
  (r"\.mlp\.(w1|fc1_g)\.", "SwiGLU of two layers"),
  (r"\.(attns|ffns)\.\d|\.attn_out_proj\.", "parallel branches"),
  (r"\.attn\.lambda_", "differential attention"),
)
_SWIGLU = (".mlp.fc1", ".mlp.gate", ".mlp.fc1")
_QKV = re.compile(
  r"^((?:(?:decoder_)?blocks|cls_pt_layers)\.\d+\.attn|attn_pool)"
  r"\.(qkv|kv)\.(weight|bias)$"
)

_HAS_TANH_GELU = re.compile(
  r"_(base_patch32|so400m_patch16|giantopt_patch16)_siglip"
  r"|_large_patch16_siglip(_gap)?_512"
)
_GELUS = {"gelu": "exact", "gelu_tanh": "tanh", "quick_gelu": "quick"}
_POOLS = {"token": "cls", "avg": "gap", "map": "map", "": "none"}
_NO_POSITIONS = ("", "none")
_HEAD_SIZE = 64
# Models with a different head size, by width and by name.
_HEADS = {1152: 16, 1280: 16, 1408: 16, 1664: 16}
_HAS_16_HEADS = re.compile(r"vit_base_patch16_gap_224|vit_giantopt_.*")


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Returns the tensors by timm's names, with joined projections split.

  Raises:
    UserError: The file has a part that our networks do not have.
  """
  tensors = _without_rows_of_registers(dino.timms(tensors, path, notes))
  for pattern, part in _UNKNOWN:
    name = next((name for name in tensors if re.search(pattern, name)), None)
    if name is not None:
      raise UserError(
        f"{path} has {part} ('{name}'), which our networks do not have, so it"
        " cannot be loaded."
      )
  if has_joined_swiglu(tensors):
    tensors = swiglu.taken_apart(tensors, *_SWIGLU, path)
  return without_zero_biases(without_joined_projections(tensors, path))


def _without_rows_of_registers(tensors: Tensors) -> Tensors:
  """Folds the positions of registers, which ours lack, into the registers."""
  table, registers = tensors.get("pos_embed"), tensors.get("reg_token")
  if registers is None or np.ndim(table) != 3 or np.ndim(registers) != 3:
    return tensors
  num_cls, num_registers = int("cls_token" in tensors), registers.shape[1]
  rows, end = table.shape[1], num_cls + num_registers
  has_rows = not (square_side(rows) or square_side(rows - num_cls))
  if not has_rows or not square_side(rows - end):
    return tensors
  if registers.shape[2] != table.shape[2]:
    return tensors
  return {
    **tensors,
    "reg_token": registers + table[:, num_cls:end],
    "pos_embed": np.delete(table, slice(num_cls, end), axis=1),
  }


def without_zero_biases(tensors: Tensors) -> Tensors:
  """Drops attention pooling biases that the layers do not have.

  timm's attention pooling always has all biases; ours has those of the layers.
  """
  zeros = {
    f"attn_pool.{part}.bias"
    for part in "qkv"
    if f"blocks.0.attn.{part}.bias" not in tensors
    and not np.any(tensors.get(f"attn_pool.{part}.bias", True))
  }
  return {name: x for name, x in tensors.items() if name not in zeros}


def without_key_biases(tensors: Tensors) -> Tensors:
  """Drops the constant zeros that TorchScript has as the keys' biases."""
  return {
    name: x
    for name, x in tensors.items()
    if not name.endswith(".attn.k_bias") or np.any(x)
  }


def has_joined_swiglu(tensors: Tensors) -> bool:
  """Detects a joined SwiGLU, which has the usual names, by its shape."""
  first, second = (
    np.shape(tensors.get(f"blocks.0.mlp.{name}.weight", ()))
    for name in ("fc1", "fc2")
  )
  return len(first) == len(second) == 2 and first[0] == 2 * second[1]


def without_joined_projections(
  tensors: Mapping[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
  """Splits joined projections into queries, keys and values.

  Raises:
    UserError: A joined matrix cannot be split.
  """
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


def _said(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  found = said_of_encoder(config, tensors, path, notes)
  if "pos_embed" in tensors:
    return found
  arguments = config.mapping("model_args")
  if arguments.values.get("pos_embed") in _NO_POSITIONS:
    return {**found, "pos_embedding": "none"}
  raise UserError(
    f"{path} has no tensor 'pos_embed', and no config says that the network has"
    " no positions (model_args.pos_embed = 'none')."
  )


def said_of_encoder(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  """Returns the keys that a config states, except for positions.

  Args:
    config: Config as written by timm; empty if there is none.
    tensors: Tensors by name, with joined projections split.
    path: Path of the file, for messages.
    notes: Extended by a sentence for each assumption.

  Raises:
    UserError: The network is not one of ours.
  """
  width = (*tensors["patch_embed.proj.weight"].shape, 0)[0]
  pool = _pool(tensors, config)
  has_cls = "cls_token" in tensors
  if pool == "cls" and not has_cls:
    raise config.refusal(
      "global_pool", "needs the class token, and there is none"
    )
  if pool == "map" and has_cls:
    raise UserError(
      f"{path} has both a class token and attention pooling, which our networks"
      " do not have together."
    )
  # Only CLIP's networks have this norm; they use PyTorch's epsilon.
  of_clip = "norm_pre.weight" in tensors
  if "architecture" in config:
    of_clip = "_clip_" in config.get("architecture", TEXT)
  elif of_clip or pool == "map":
    notes.append(
      "No config.json says which form of the GELU there is: the exact one is"
      " taken (model.gelu='exact'); OpenAI's CLIP wants 'quick', most SigLIPs"
      " want 'tanh'."
    )
  has_stem = any(name.startswith(f"{_STEM}.") for name in tensors)
  return {
    "num_heads": _num_heads(config, width, notes),
    "pool": pool,
    "pos_embedding_resize": "bicubic_antialias",
    "gelu": gelu(config),
    "layer_norm_eps": 1e-5 if of_clip else 1e-6,
    "standardization": "torch" if has_stem else "google",
  }


def _pool(tensors: Tensors, config: Fields) -> str:
  for fields in (config.mapping("model_args"), config):
    if "global_pool" in fields:
      name = fields.get("global_pool", TEXT)
      if name not in _POOLS:
        raise fields.refusal(
          "global_pool", f"is not a pooling of our networks: {list(_POOLS)}"
        )
      return _POOLS[name]
  if any(name.startswith("attn_pool.") for name in tensors):
    return "map"
  averages = "fc_norm.weight" in tensors
  return "cls" if "cls_token" in tensors and not averages else "gap"


def usual_num_heads(width: int) -> int:
  """Returns the number of heads in published networks of this width."""
  return _HEADS.get(width, max(1, width // _HEAD_SIZE))


def _num_heads(config: Fields, width: int, notes: list[str]) -> int:
  arguments = config.mapping("model_args")
  num_heads = usual_num_heads(width)
  if "num_heads" in arguments:
    num_heads = arguments.get("num_heads", COUNT)
  elif _HAS_16_HEADS.fullmatch(config.get("architecture", TEXT, "unknown")):
    num_heads = 16
  elif "architecture" not in config:
    notes.append(
      f"No config.json says how many heads there are: {num_heads} of size"
      f" {width // num_heads} are taken (model.num_heads={num_heads}); a run"
      " may set another config.model.num_heads."
    )
    num_heads = Assumed(num_heads)
  if width % num_heads:
    raise UserError(
      f"{config.path}: {num_heads} heads do not divide the width of {width};"
      " say the right number as model_args.num_heads."
    )
  return num_heads


def gelu(config: Fields) -> str:
  """Returns the form of the GELU in the network that config.json names."""
  arguments = config.mapping("model_args")
  if "act_layer" in arguments:
    name = arguments.get("act_layer", TEXT)
    if name not in _GELUS:
      raise arguments.refusal(
        "act_layer", f"is not an activation of our networks: {list(_GELUS)}"
      )
    return _GELUS[name]
  architecture = config.get("architecture", TEXT, "vit_")
  if "_quickgelu_" in architecture:
    return "quick"
  return "tanh" if _HAS_TANH_GELU.search(architecture) else "exact"


TIMM = Timm(
  label="vit_*, deit*_*, flexivit_*",
  architectures=r"(test_)?vit_|deit3?_|flexivit_",
  names=_NAMES,
  prepare=_prepare,
  said=_said,
  arguments=frozenset({"pos_embed", "pre_norm", "scale_mlp_norm"}),
)
