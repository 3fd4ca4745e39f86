"""EVA-02, in the formats of timm and baaivision/EVA.

Ti and S keep queries, keys and values in one matrix and a SwiGLU's two layers
in another; B and L keep each separately and normalise the hidden units. The
authors' files also hold the angles of the rotary positions, which follow from
the size of the network and are checked here.
"""

import re
from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.models.layers import rope_table
from vit_jax.models.layers.position_resize import square_side
from vit_jax.weights.fields import FLAG, NUMBER, TEXT, Fields
from vit_jax.weights.spellings.contract import Beside, Original, Timm
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.vit import swiglu, timm

_BLOCK = "Transformer/encoderblock_{0}"
_NAMES = Names(
  rows=(
    (f"{_BLOCK}/MlpBlock_0/LayerNorm_0", "blocks.{0}.mlp.norm"),
    *timm.TIMM.names.rows,
  ),
  required=timm.TIMM.names.required,
)
# Keys have no bias, which is true of no other network with a position table.
_MARKS = ("blocks.0.attn.q_bias", "blocks.0.attn.q_proj.weight")
# Patterns of names in files, the authors' first, and names in the table. A
# SwiGLU's joined layer is split afterwards.
_OTHERS = (
  (re.compile(r"\.mlp\.w1\."), ".mlp.fc1_g."),
  (re.compile(r"\.mlp\.w2\."), ".mlp.fc1_x."),
  (re.compile(r"\.mlp\.w3\."), ".mlp.fc2."),
  (re.compile(r"\.mlp\.w12\."), ".mlp.fc1."),
  (re.compile(r"\.mlp\.ffn_ln\."), ".mlp.norm."),
  (re.compile(r"\.attn\.([qkv])_proj\."), r".attn.\1."),
  (re.compile(r"\.attn\.([qv])_bias$"), r".attn.\1.bias"),
)
_FACTORS = re.compile(r"\bgamma_([12])$")
_FIRST_GATE = "blocks.0.mlp.gate.weight"
_GATE, _HIDDEN = (re.compile(rf"\.mlp\.fc1_{one}\.") for one in "gx")
_SWIGLU = (".mlp.fc1", ".mlp.gate", ".mlp.fc1")
# Computed from the sizes; timm's are in TorchScript only.
_ANGLES = re.compile(r"(.*\.)?rope\.(freqs_(cos|sin)|bands|pos_embed)")
_COSINES = "rope.freqs_cos"
_INNER_NORM = re.compile(r"blocks\.\d+\.attn\.(norm|inner_attn_ln)\..*")
_PREDICTION = ("lm_head.weight", "lm_head.bias", "mask_token")
# Patches along a side in pre-training: 224 pixels / 14.
_GRID = 16


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Converts tensors to timm's ViT names, with every layer separate.

  Raises:
    UserError: The file has norms inside the branches, or a joined layer cannot
      be split.
  """
  head = [name for name in tensors if name.startswith("lm_head.")]
  if head:
    notes.append(
      f"The prediction head ({len(head)} tensors) is not part of the network."
    )
  found: dict[str, np.ndarray] = {}
  for name, tensor in timm.without_key_biases(tensors).items():
    if _INNER_NORM.fullmatch(name):
      raise UserError(
        f"{path} has norms inside the branches ('{name}'), as EVA-02-CLIP,"
        " which our networks do not have, so it cannot be loaded."
      )
    if name in _PREDICTION or _ANGLES.fullmatch(name):
      continue
    for pattern, replacement in _OTHERS:
      name = pattern.sub(replacement, name)
    found[name] = tensor
  if any(_GATE.search(name) for name in found):
    found = {
      _HIDDEN.sub(".mlp.fc1.", _GATE.sub(".mlp.gate.", name)): tensor
      for name, tensor in found.items()
    }
  elif timm.has_joined_swiglu(found):
    found = dict(swiglu.taken_apart(found, *_SWIGLU, path))
  found = {_FACTORS.sub(r"ls\1.gamma", n): x for n, x in found.items()}
  found = timm.without_joined_projections(found, path)
  return timm.without_zero_biases(found)


def _said_by_timm(
  config: Fields, tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  found = timm.said_of_encoder(config, tensors, path, notes)
  del found["gelu"], found["standardization"]  # EVA-02 has neither.
  has_gate = _FIRST_GATE in tensors
  if not has_gate:
    found["gelu"] = "exact"
  found["layer_norm_eps"] = 1e-6
  if found["pool"] != "cls" and "cls_token" in tensors:
    found["cls_token"] = True
  arguments = config.mapping("model_args")
  # EVA, whose MLPs have no gate, only adds its positions.
  name = config.get("architecture", TEXT, "eva02_" if has_gate else "eva_")
  if arguments.get("swiglu_mlp", FLAG, name.startswith("eva02_")) != has_gate:
    raise UserError(
      f"{path} has MLPs {'with' if has_gate else 'without'} a gate, which is"
      f" not what {config.path} says (architecture, model_args.swiglu_mlp)."
    )
  usual = not name.startswith("eva_")
  found["rope"] = arguments.get("use_rot_pos_emb", FLAG, usual)
  if "pos_embed" not in tensors:
    has_table = arguments.get("use_abs_pos_emb", FLAG, "_rope_" not in name)
    # DINOv3 has equal names, but rotates otherwise.
    if has_table or "architecture" not in config:
      raise UserError(
        f"{path} has no tensor 'pos_embed', and no config says which network"
        " with rotary positions alone it is (architecture, such as"
        " 'vit_small_patch16_dinov3_qkvb'; for EVA-02 also"
        " model_args.use_abs_pos_emb = false)."
      )
    found["pos_embedding"] = "none"
  if "rope_temperature" in arguments:
    found["rope_base"] = arguments.get("rope_temperature", NUMBER)
  found["rope_grid"] = arguments.side("ref_feat_shape", _GRID)
  if arguments.values.get("ref_feat_shape", _GRID) is None:
    found["rope_grid"] = None
  return found


def _said_by_authors(
  tensors: Tensors, path: str, notes: list[str]
) -> dict[str, Any]:
  # All heads have 64 units, so nothing is assumed.
  del notes
  found = _said_by_timm(Fields(path, {}), tensors, path, [])
  # The mean is used even if there is no head yet.
  found |= {"pool": "gap", "cls_token": True, "normalize": "clip"}
  return {**found, "pos_embedding_resize": "bicubic"}


def _told_by_angles(tensors: Tensors, path: str) -> dict[str, Any]:
  """Returns the keys that the angles in a file imply; {} if it has none.

  They are [rows, columns, head size] or [rows * columns, head size], depending
  on the version, and repeated in every layer.

  Raises:
    UserError: The angles are not EVA-02's.
  """
  if _COSINES not in tensors:
    return {}
  cosines = np.asarray(tensors[_COSINES])
  head_size = (0, *cosines.shape)[-1]
  if head_size and head_size % 4 == 0:
    cosines = cosines.reshape(-1, head_size)
    side = square_side(len(cosines)) or 0
    for reference in (_GRID, None):
      wanted, _ = rope_table.table((side, side), head_size, reference=reference)
      # Files may store them in half precision.
      if side and np.allclose(cosines, wanted, atol=2e-3):
        width = (*tensors["patch_embed.proj.weight"].shape, 0)[0]
        heads = {"num_heads": width // head_size}
        return {"rope_grid": reference, **(heads if width else {})}
  raise UserError(
    f"{path}: '{_COSINES}' of shape {tensors[_COSINES].shape} holds other"
    f" rotary positions than EVA-02's, of any grid scaled to {_GRID} x {_GRID}"
    " or not scaled, so it cannot be loaded."
  )


def _beside(tensors: Tensors) -> Beside:
  """Returns the masked patch embedding and the feature prediction head."""
  found: dict[str, Any] = {}
  if "mask_token" in tensors:
    found["mask_token"] = tensors["mask_token"].reshape(1, 1, -1)
  kernel = tensors.get("lm_head.weight")
  if kernel is not None and kernel.ndim == 2:
    bias = tensors.get("lm_head.bias", np.zeros(len(kernel), np.float32))
    found["patch_head"] = {"kernel": kernel.T, "bias": bias}
  return found, None


TIMM = Timm(
  label="eva_*, eva02_*, vit_*_rope_reg*_gap_*",
  architectures=r"eva(02)?_|vit_\w+_rope_reg\d_gap_",
  names=_NAMES,
  marks=_MARKS,
  prepare=_prepare,
  said=_said_by_timm,
  arguments=frozenset(
    {
      "qkv_fused",
      "swiglu_mlp",
      "scale_mlp",
      "use_rot_pos_emb",
      "ref_feat_shape",
      "rope_temperature",
      "use_fc_norm",
      "use_abs_pos_emb",
      "use_pre_transformer_norm",
      "use_post_transformer_norm",
      "num_reg_tokens",
    }
  ),
)
ORIGINAL = Original(
  label="EVA-02",
  names=_NAMES,
  marks=(_COSINES, *_MARKS),
  prepare=_prepare,
  said=_said_by_authors,
  told=_told_by_angles,
  beside=lambda tensors, path: _beside(tensors),
)
