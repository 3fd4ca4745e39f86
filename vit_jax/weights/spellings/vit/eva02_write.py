"""Writes networks with rotary positions as timm's Eva: EVA-02 or DINOv3."""

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
from vit_jax.weights.spellings.vit import (
  dinov3,
  eva02,
  swiglu,
  timm_tokens,
  timm_write,
)

_KIND = "Eva"
# Width -> architecture; others are written as a Ti of other sizes.
_NAMES = {
  192: "eva02_tiny_patch14_224",
  384: "eva02_small_patch14_224",
  768: "eva02_base_patch14_224",
  1024: "eva02_large_patch14_224",
}
_OF_DINOV3 = {
  384: "vit_small_patch16_dinov3",
  768: "vit_base_patch16_dinov3",
  1024: "vit_large_patch16_dinov3",
}
_BIAS = re.compile(r"(blocks\.\d+\.attn)\.([qv])\.bias")
_FACTORS = re.compile(r"(blocks\.\d+)\.ls([12])\.gamma")
_APART = (
  (re.compile(r"\.mlp\.gate\."), ".mlp.fc1_g."),
  (re.compile(r"\.mlp\.fc1\."), ".mlp.fc1_x."),
)


def _network(model: schema.Model) -> TimmNetwork:
  size, is_dinov3 = sizes.vit(model), _is_dinov3(model)
  wanted: dict[str, Any] = {
    "distillation": "none",
    "representation_size": None,
    "layer_norm_eps": 1e-5 if is_dinov3 else 1e-6,
  }
  if model.mlp == "gelu" or model.pool == "map":
    wanted["gelu"] = "exact"
  require(_KIND, model, wanted)
  timm_tokens.check(_KIND, model)
  if size.stem_blocks is not None:
    raise cannot(_KIND, f"model.stem_blocks={size.stem_blocks}")
  if model.qkv_bias and model.key_bias:
    # Keys are rotated by position, so their bias matters.
    raise cannot(_KIND, "model.key_bias=True with model.rope=True")
  tokens = timm_tokens.counted(model)
  if model.pool == "map":
    require("attention pooling", model, {"mlp": "gelu", "mlp_norm": False})
    if tokens.registers or tokens.has_cls:
      raise cannot(
        _KIND, f"model.registers={model.registers} with model.pool='map'"
      )
  pool = timm_write.POOLS[model.pool]
  side = model.rope_grid or size.grid(model.image_size)
  arguments: dict[str, Any] = {
    "img_size": model.image_size,
    "patch_size": size.patch_size,
    "embed_dim": size.width,
    "depth": size.depth,
    "num_heads": size.num_heads,
    "mlp_ratio": ratio(size.width, size.mlp_dim),
    "qkv_bias": model.qkv_bias,
    "qkv_fused": True,
    "swiglu_mlp": model.mlp == "swiglu",
    "scale_mlp": model.mlp_norm,
    "class_token": tokens.has_cls,
    "no_embed_class": not tokens.with_rows,
    "num_reg_tokens": tokens.registers,
    "use_abs_pos_emb": timm_tokens.has_table(model),
    "use_rot_pos_emb": True,
    "ref_feat_shape": [side, side],
    "use_pre_transformer_norm": model.pre_norm,
    "use_post_transformer_norm": not model.norm_after_pool,
    "use_fc_norm": model.norm_after_pool,
    "global_pool": pool,
  }
  if model.layer_scale is not None:
    arguments["init_values"] = model.layer_scale
  if model.rope_base != 10_000:
    arguments["rope_temperature"] = model.rope_base
  architecture = _NAMES.get(size.width, _NAMES[192])
  if is_dinov3:
    if model.layer_scale is None:  # timm drops an argument of None.
      raise cannot(
        _KIND, "model.layer_scale=None with model.rope_coordinates='unit'"
      )
    del arguments["ref_feat_shape"]  # Without effect.
    arguments |= {"rope_type": "dinov3", "rope_rotate_half": True}
    arguments |= {"swiglu_align_to": 1, "dynamic_img_size": True}
    architecture = _OF_DINOV3.get(size.width, _OF_DINOV3[384])
  return TimmNetwork(
    architecture=architecture,
    arguments=arguments,
    pool=pool,
    width=size.width,
    first_conv="patch_embed.proj",
    classifier="head",
    fixed_input_size=True,
  )


def _tensors(model: schema.Model, params: Tensors) -> Tensors:
  found = timm_tokens.folded(model, params)
  is_dinov3 = _is_dinov3(model)
  table = dinov3.TIMM.names if is_dinov3 else eva02.TIMM.names
  written = names.write(flat.unflatten(found), table)
  if model.mlp == "swiglu" and not (model.mlp_norm or is_dinov3):
    written = dict(
      swiglu.put_together(written, ".mlp.fc1", ".mlp.gate", ".mlp.fc1")
    )
  elif model.mlp == "swiglu":
    written = {_apart(name): tensor for name, tensor in written.items()}
  written = {
    _BIAS.sub(r"\1.\2_bias", _FACTORS.sub(r"\1.gamma_\2", name)): tensor
    for name, tensor in written.items()
  }
  if model.pool == "map":
    zeros = np.zeros(sizes.vit(model).width, np.float32)
    for part in "qkv":
      written.setdefault(f"attn_pool.{part}.bias", zeros)
  return timm_write.joined(written)


def _is_dinov3(model: schema.Model) -> bool:
  return model.rope_coordinates == "unit"


def _apart(name: str) -> str:
  for pattern, replacement in _APART:
    if pattern.search(name):
      return pattern.sub(replacement, name)
  return name


WRITER = TimmWriter(
  writes=lambda model: model.name == "vit" and model.rope,
  network=_network,
  tensors=_tensors,
)
