"""The Vision Transformer (arXiv 2010.11929) and its hybrids as a family."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vit_jax.config import schema
from vit_jax.models.family import Family, shared_keys
from vit_jax.models.vit import (
  beit_names,
  checks,
  cost,
  detect,
  dino_names,
  eva_names,
  fitting,
  shapes,
  sizes,
)
from vit_jax.models.vit.deciding import deciding
from vit_jax.models.vit.section import ViTModel

if TYPE_CHECKING:
  from vit_jax.models.vit.network import ViT

# Patch sizes, pixels, that Vision Transformers are trained with.
_PATCHES = {
  "mu": (16,),
  "Ti": (16,),
  "S": (8, 16, 32),
  "M": (16, 32),
  "B": (8, 16, 32),
  "L": (14, 16, 32),
  "So400m": (14, 16),
  "H": (14,),
  "g": (14,),
  "G": (14,),
}
# From google-research/vision_transformer and tables 3 and 6 of the ViT paper.
_HYBRIDS = (
  "R+Ti/16",
  "R26+S/32",
  "R26+B/32",
  "R50+B/16",
  "R50+B/32",
  "R50+L/16",
  "R50+L/32",
)
# From facebookresearch/deit.
_DEITS = (
  *(f"DeiT-{size}/16" for size in ("Ti", "S", "B")),
  *(f"DeiT-{size}/16-distilled" for size in ("Ti", "S", "B")),
  *(f"DeiT3-{size}/16" for size in ("S", "M", "B", "L")),
  "DeiT3-H/14",
)
_DEIT = re.compile(r"DeiT(3?)-(\w+/\d+)(-distilled)?", re.ASCII)
_NUMBERS = (
  "width",
  "depth",
  "num_heads",
  "mlp_dim",
  "patch_size",
  "stem_blocks",
  "stem_width",
)
_COMPUTED = (*_NUMBERS, "num_classes", "representation_size")
_LAYER = re.compile(r"layer_(\d+)/(tokens|attention)")
_BLOCK = re.compile(r"(?:.*/)?encoderblock_(\d+)/.*")
# Parameters after the last block; all others outside of blocks precede them.
_TOP = re.compile(
  r"(.*/)?(relative_bias|encoder_norm|fc_norm|pre_logits|((patch|dino|ibot)_)?head|head_dist|MAPHead_0)/.*"
)


def _create(model: schema.Model, num_classes: int | None) -> "ViT":
  from vit_jax.models.vit.network import ViT

  size = sizes.vit(model)
  if model.attention == "auto":
    # Runs resolve 'auto' themselves, as only they know their devices.
    model = model.updated(attention="xla")
  return ViT(
    num_classes=num_classes,
    representation_size=sizes.representation_size(model),
    **{name: getattr(size, name) for name in _NUMBERS},
    **shared_keys(model, ViTModel, ViT, _COMPUTED),
  )


def _config_of(network: "ViT") -> schema.Model:
  size = sizes.Size(**{name: getattr(network, name) for name in _NUMBERS})
  keys = sizes.vit_keys(size)
  keys["representation_size"] = network.representation_size
  keys.update(shared_keys(network, ViTModel, type(network), _COMPUTED))
  return ViTModel(num_classes=network.num_classes, **keys)


def _grid(model: schema.Model) -> tuple[int, int]:
  size = sizes.vit(model)
  return size.grid(model.image_size), size.patch_size


def _describe(model: schema.Model) -> str:
  size = sizes.vit(model)
  keys = sizes.vit_keys(size)
  if keys.keys() <= {"variant"}:
    variant = keys["variant"]
    return variant if "+" in variant else f"ViT-{variant}"
  stem = "" if size.stem_blocks is None else " and a convolutional stem"
  return (
    f"ViT of width {size.width}, depth {size.depth}, patches of"
    f" {size.patch_size} pixels{stem}"
  )


def _details(model: schema.Model) -> list[str]:
  size = sizes.vit(model)
  hidden = "SwiGLU" if model.mlp == "swiglu" else f"GELU: `{model.gelu}`"
  return [
    f"width {size.width}, {size.depth} layers of {size.num_heads} heads,"
    f" MLPs of {size.mlp_dim}",
    f"patches of {size.patch_size} x {size.patch_size} pixels",
    f"pooling: `{model.pool}`",
    *([f"registers: {model.registers}"] if model.registers else []),
    f"position embedding: `{model.pos_embedding}`"
    + (" and rotary positions" if model.rope else ""),
    f"{hidden}; LayerNorm epsilon: {model.layer_norm_eps:g}",
  ]


def _implied(model: schema.Model) -> dict[str, Any]:
  return {
    "representation_size": sizes.representation_size(model),
    "cls_token": sizes.has_cls(model.pool, model.cls_token),
  }


def _find(name: str) -> schema.Model | None:
  if match := _DEIT.fullmatch(name):
    return _deit(variant=match[2], is_third=bool(match[1]), distilled=match[3])
  for others in (dino_names, beit_names, eva_names):
    if model := others.find(name):
      return model
  stem, plus, vit = name.rpartition("+")
  stem = re.sub(r"^(R\d+)x1$", r"\1", stem)
  variant = stem + plus + vit.removeprefix("ViT-")
  return ViTModel(variant=variant) if "/" in variant else None


def _deit(
  variant: str, *, is_third: bool, distilled: str | None
) -> schema.Model | None:
  """A network of DeiT, or of DeiT III, which has no distillation token."""
  keys: dict[str, Any] = {"variant": variant}
  keys |= {"gelu": "exact", "normalize": "imagenet"}
  keys["pos_embedding_resize"] = "bicubic"
  if is_third and distilled:
    return None
  if is_third:
    keys |= {"layer_scale": 1e-4, "cls_position": False}
    keys["stochastic_depth"] = "constant"
  elif distilled:
    keys["distillation"] = "average"
  return ViTModel(**keys)


def _shrink(model: Any) -> None:
  """Reduces it to two layers of width 32, 2 x 2 patches, one unit per stage."""
  size = sizes.vit(
    ViTModel(variant=model.variant, stem_blocks=model.stem_blocks)
  )
  model.update(width=32, depth=2, num_heads=2, mlp_dim=64)
  model.image_size = 2 * size.patch_size
  if size.stem_blocks is not None:
    model.update(stem_width=32, stem_blocks=(1,) * len(size.stem_blocks))
  if isinstance(model.representation_size, int):
    model.representation_size = 32


def _num_prefix_tokens(model: schema.Model) -> int:
  return sizes.num_prefix(model)


def _feature_names(network: "ViT") -> list[str]:
  names = ["embedded"] if network.stem_blocks is None else ["stem", "embedded"]
  for layer in range(network.depth):
    names += [f"layer_{layer:02d}/attention", f"layer_{layer:02d}/tokens"]
  names.append("encoded")
  if network.pool == "map":
    names.append("pool_attention")
  return [*names, "pre_logits"]


def _feature(network: "ViT", name: str, sown: Mapping[str, Any]) -> Any:
  from vit_jax.models.layers.attention import ATTENTION_MAPS

  if name == "embedded":
    return sown["intermediates"]["Transformer"][name][0]
  if name == "pool_attention":
    pooling = sown[ATTENTION_MAPS]["MAPHead_0"]
    return pooling["MultiHeadDotProductAttention_0"]["attention"][0]
  match = _LAYER.fullmatch(name)
  if not match:
    return sown["intermediates"][name][0]
  layer, kind = int(match[1]), match[2]
  collection = ATTENTION_MAPS if kind == "attention" else "intermediates"
  block = "encoderblock" if network.scan_layers else f"encoderblock_{layer}"
  values = sown[collection]["Transformer"][block]
  if kind == "attention":
    values = values["MultiHeadDotProductAttention_0"]
  value = values[kind][0]
  return value[layer] if network.scan_layers else value


def _map_names(network: "ViT") -> list[str]:
  return [f"layer_{layer:02d}/tokens" for layer in range(network.depth)]


def _last_norm(
  network: "ViT", params: Mapping[str, Any]
) -> Callable[[Any], Any]:
  from vit_jax.models.vit import last_layers

  return last_layers.last_norm(network, params)


def _num_class_layers(model: schema.Model) -> int:
  has_cls = sizes.has_cls(model.pool, model.cls_token)
  return sizes.vit(model).depth if has_cls else 0


def _last_layers(
  network: "ViT",
  params: Mapping[str, Any],
  sown: Mapping[str, Any],
  count: int,
) -> tuple[Any, Any]:
  from vit_jax.models.vit import last_layers

  names = _map_names(network)[-count:]
  tokens = [_feature(network, name, sown) for name in names]
  return last_layers.normalized(network, params, tokens)


def _pixel_filters(network: "ViT", params: Mapping[str, Any]) -> Any:
  from vit_jax.models.layers import convolution

  if network.stem_blocks is None:
    return params["embedding"]["kernel"]
  return convolution.standardized_filters(params["conv_root"]["kernel"])


def _layer_of(model: schema.Model, path: str) -> int | None:
  del model
  # Of masked autoencoders and of BEiT v2; they have blocks of their own.
  if path.startswith(("decoder/", "aggregation/")):
    return None
  match = _BLOCK.fullmatch(path)
  if match:
    return int(match[1])
  return None if _TOP.fullmatch(path) else -1


FAMILY = Family(
  section=ViTModel,
  title="Vision Transformer",
  tag="vit",
  check=checks.check,
  create=_create,
  config_of=_config_of,
  size=sizes.vit,
  forward_flops=cost.forward_flops,
  unread_flops=cost.unread_flops,
  skipped_flops=cost.skipped_flops,
  layer_flops=cost.layer_flops,
  num_params=shapes.num_params,
  grid=_grid,
  describe=_describe,
  details=_details,
  names=(
    *(
      f"ViT-{name}/{patch}"
      for name, patches in _PATCHES.items()
      for patch in patches
    ),
    *_HYBRIDS,
    *_DEITS,
    *dino_names.NAMES,
    *beit_names.NAMES,
    *eva_names.NAMES,
  ),
  matches=detect.matches,
  detect=detect.detect,
  shapes=shapes.shapes,
  fit=fitting.fit,
  deciding=deciding,
  implied=_implied,
  find=_find,
  shrink=_shrink,
  feature_names=_feature_names,
  feature=_feature,
  pixel_filters=_pixel_filters,
  map_names=_map_names,
  last_norm=_last_norm,
  num_class_layers=_num_class_layers,
  last_layers=_last_layers,
  num_prefix_tokens=_num_prefix_tokens,
  has_attention=True,
  has_tokens=True,
  layer_of=_layer_of,
  matrix_optimizer=True,
)
