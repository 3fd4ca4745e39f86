"""Writes Vision Transformers and hybrids as timm's VisionTransformer."""

import re
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.models.vit import sizes
from vit_jax.weights import flat
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.timm_network import (
  TimmNetwork,
  TimmWriter,
  cannot,
  ratio,
  require,
)
from vit_jax.weights.spellings.vit import swiglu, timm, timm_tokens

_KIND = "VisionTransformer"
POOLS = {"cls": "token", "gap": "avg", "map": "map", "none": ""}
_ACTIVATIONS = {"exact": "gelu", "tanh": "gelu_tanh", "quick": "quick_gelu"}
# Width -> architecture; others are written as a B of other sizes.
_NAMES = {192: "tiny", 384: "small", 768: "base", 1024: "large"}
_DISTILLED = {192: "tiny", 384: "small", 768: "base"}
# Architectures with PyTorch's epsilon in the norms, and with a SwiGLU.
_EPSILON, _EPSILON_OF_CLIP = 1e-6, 1e-5
_CLIP = "vit_base_patch16_clip_224"
_WITH_SWIGLU = "vit_giant_patch14_dinov2"
# Units per stage of a stem -> architecture.
_HYBRIDS = {
  (): "vit_tiny_r_s16_p8_224",
  (2, 2, 2, 2): "vit_small_r26_s32_224",
  (3, 4, 9): "vit_base_r50_s16_224",
  (3, 4, 6, 3): "vit_large_r50_s32_224",
}
_STEM_WIDTH = 64
# A stem without stages is just its root.
_STEM, _ROOT = "patch_embed.backbone.stem.", "patch_embed.backbone."
_PROJECTION = re.compile(r"(.+\.attn|attn_pool)\.([qkv])\.(weight|bias)")
_POOLING_BIAS = "attn_pool.{}.bias"
_OTHER_CONSTANTS = (
  "the stem adds other numbers to variances than"
  " model.standardization='google' does, so that logits differ by about 1e-4"
)


def _network(model: schema.Model) -> TimmNetwork:
  size = sizes.vit(model)
  require(_KIND, model, {"representation_size": None, "rope": False})
  timm_tokens.check(_KIND, model)
  has_teacher = model.distillation == "average"
  if has_teacher and model.registers:
    raise cannot(
      _KIND,
      f"model.registers={model.registers} with model.distillation='average'",
    )
  if model.pool == "map":
    require("attention pooling", model, {"mlp": "gelu", "mlp_norm": False})
  architecture = _architecture(model, size)
  tokens = timm_tokens.counted(model)
  arguments: dict[str, Any] = {
    "img_size": model.image_size,
    "patch_size": size.patch_size // size.stem_stride,
    "embed_dim": size.width,
    "depth": size.depth,
    "num_heads": size.num_heads,
    "mlp_ratio": ratio(size.width, size.mlp_dim),
    "qkv_bias": model.qkv_bias,
    "global_pool": POOLS[model.pool],
    "class_token": tokens.has_cls,
    "no_embed_class": not tokens.with_rows,
    "reg_tokens": 0 if has_teacher else tokens.registers,
    "pre_norm": model.pre_norm,
    # A distilled network has the norm before both heads, which is equivalent.
    "fc_norm": model.norm_after_pool and not has_teacher,
  }
  if model.mlp == "swiglu":
    arguments["mlp_ratio"] = ratio(size.width, 2 * size.mlp_dim)
  else:
    arguments["act_layer"] = _ACTIVATIONS[model.gelu]
  if model.mlp_norm:
    arguments["scale_mlp_norm"] = True
  if not timm_tokens.has_table(model):
    arguments["pos_embed"] = "none"
  if model.layer_scale is not None:
    arguments["init_values"] = model.layer_scale
  elif architecture == _WITH_SWIGLU:
    arguments["init_values"] = 0
  stem = size.stem_blocks
  first_conv = "patch_embed.proj"
  if stem is not None:
    first_conv = f"{_STEM if stem else _ROOT}conv"
  is_google = stem is not None and model.standardization == "google"
  return TimmNetwork(
    architecture=architecture,
    arguments=arguments,
    pool=POOLS[model.pool],
    width=size.width,
    first_conv=first_conv,
    classifier=("head", "head_dist") if has_teacher else "head",
    fixed_input_size=True,
    notes=(_OTHER_CONSTANTS,) if is_google else (),
  )


def _architecture(model: schema.Model, size: sizes.Size) -> str:
  """Picks a timm architecture with the parts that no argument sets."""
  epsilon, has_gate = model.layer_norm_eps, model.mlp == "swiglu"
  if epsilon not in (_EPSILON, _EPSILON_OF_CLIP):
    raise cannot(
      _KIND,
      f"model.layer_norm_eps={epsilon:g}, only {_EPSILON:g} and"
      f" {_EPSILON_OF_CLIP:g}",
    )
  others: list[str] = []
  found = f"vit_{_NAMES.get(size.width, 'base')}_patch16_224"
  if size.stem_blocks is not None:
    if size.stem_blocks not in _HYBRIDS:
      raise cannot(_KIND, f"model.stem_blocks={size.stem_blocks}")
    if size.stem_width != _STEM_WIDTH:
      raise cannot(_KIND, f"model.stem_width={size.stem_width}")
    others.append("a stem")
    found = _HYBRIDS[size.stem_blocks]
  if model.distillation == "average":
    others.append("model.distillation='average'")
    name = _DISTILLED.get(size.width, "base")
    found = f"deit_{name}_distilled_patch16_224"
  if has_gate:
    others.append("model.mlp='swiglu'")
    found = _WITH_SWIGLU
  if epsilon == _EPSILON_OF_CLIP:
    others.append(f"model.layer_norm_eps={epsilon:g}")
    found = _CLIP
  if len(others) > 1:
    raise cannot(_KIND, " together with ".join(others))
  return found


def _tensors(model: schema.Model, params: Tensors) -> Tensors:
  size, found = sizes.vit(model), timm_tokens.folded(model, params)
  if model.norm_after_pool and model.distillation == "average":
    found = {
      name.replace("fc_norm/", "Transformer/encoder_norm/"): array
      for name, array in found.items()
    }
  written = names.write(flat.unflatten(found), timm.TIMM.names)
  if model.mlp == "swiglu":
    written = dict(
      swiglu.put_together(written, ".mlp.fc1", ".mlp.gate", ".mlp.fc1")
    )
  if model.pool == "map":
    # timm's attention pooling always has biases.
    zeros = np.zeros(size.width, np.float32)
    for part in "qkv":
      written.setdefault(_POOLING_BIAS.format(part), zeros)
  if size.stem_blocks == ():
    written = {n.replace(_STEM, _ROOT): x for n, x in written.items()}
  return joined(written)


def joined(tensors: Tensors) -> dict[str, np.ndarray]:
  """Joins queries, keys and values into one matrix.

  Biases that our networks omit are zeros if the others have theirs.
  """
  found = {n: x for n, x in tensors.items() if not _PROJECTION.fullmatch(n)}
  for name in tensors:
    match = _PROJECTION.fullmatch(name)
    if match is None or match[2] != "q":
      continue
    module, leaf = match[1], match[3]
    size = len(tensors[f"{module}.q.weight"])
    query, key, value = (
      tensors.get(f"{module}.{part}.{leaf}", np.zeros(size, np.float32))
      for part in "qkv"
    )
    if module == "attn_pool":
      found[name] = query
      found[f"{module}.kv.{leaf}"] = np.concatenate([key, value])
    else:
      found[f"{module}.qkv.{leaf}"] = np.concatenate([query, key, value])
  return found


WRITER = TimmWriter(
  writes=lambda model: model.name == "vit",
  network=_network,
  tensors=_tensors,
)
