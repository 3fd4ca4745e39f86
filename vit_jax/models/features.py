"""What a network computes on the way to its logits, by name.

All have 'logits', 'pre_logits' (the feature that the head sees) and 'encoded'
(tokens, or a ResNet's maps, after the last norm). A Vision Transformer also
has 'stem' (a hybrid's maps), 'embedded' (tokens that enter the first layer),
and for each layer 'layer_00/tokens' (its result) and 'layer_00/attention' (its
maps, [b, heads, n, n]); one that pools by attention has 'pool_attention', [b,
heads, 1, n]. A ResNet has 'root' and the result of each unit, 'block1/unit01'.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.errors import UserError
from vit_jax.models.layers.attention import ATTENTION_MAPS
from vit_jax.models.resnet.network import ResNet, unit_name
from vit_jax.models.vit.network import ViT
from vit_jax.suggestions import did_you_mean

POOL_ATTENTION = "pool_attention"
_LAYER = re.compile(r"layer_(\d+)/(tokens|attention)")


def features(
  model: ViT | ResNet,
  params: Any,
  images: UInt8[Array | np.ndarray, "b h w c"]
  | Float[Array | np.ndarray, "b h w c"],
  names: Sequence[str],
) -> dict[str, Float[Array, "b ..."]]:
  """The named features of images, without dropout.

  Under `jax.jit` what is not named is not kept.

  Raises:
    UserError: a name that the model does not have.
  """
  known = feature_names(model)
  for name in names:
    if name not in known:
      raise UserError(_unknown(name, known))
  collections = ["intermediates"]
  if any(name.endswith("attention") for name in names):
    collections.append(ATTENTION_MAPS)
  result, sown = model.apply({"params": params}, images, mutable=collections)
  return {name: _find(model, name, result, sown) for name in names}


def feature_names(model: ViT | ResNet) -> list[str]:
  """Every name that `features` takes, in the order of computation."""
  if isinstance(model, ResNet):
    names = ["root"]
    for stage, num_units in enumerate(model.blocks):
      names += [f"block{stage + 1}/{unit_name(i)}" for i in range(num_units)]
  else:
    names = ["embedded"] if model.stem_blocks is None else ["stem", "embedded"]
    for i in range(model.depth):
      names += [f"layer_{i:02d}/attention", f"layer_{i:02d}/tokens"]
  names.append("encoded")
  if isinstance(model, ViT) and model.pool == "map":
    names.append(POOL_ATTENTION)
  names.append("pre_logits")
  return names if model.num_classes is None else [*names, "logits"]


def _unknown(name: str, known: list[str]) -> str:
  if name == "logits":
    return "The model has no head, so it has no 'logits'; use 'pre_logits'."
  close = did_you_mean(name, known)
  hint = f" Did you mean '{close}'?" if close else ""
  layers = [n for n in known if "/" in n]
  names = [n for n in known if "/" not in n]
  return (
    f"The model has no feature '{name}'.{hint} It has {', '.join(names)}, and"
    f" every layer's from '{layers[0]}' to '{layers[-1]}'."
  )


def _find(model: ViT | ResNet, name: str, result: Any, sown: Any) -> Array:
  if name == "logits":
    return result
  values = sown["intermediates"]
  if name == "pre_logits":
    return values["representation"][0]
  if name == "embedded":
    return values["Transformer"][name][0]
  if name == POOL_ATTENTION:
    pooling = sown[ATTENTION_MAPS]["MAPHead_0"]
    return pooling["MultiHeadDotProductAttention_0"]["attention"][0]
  if "/" not in name:
    return values[name][0]
  if isinstance(model, ResNet):
    stage, unit = name.split("/")
    return values[stage][unit]["map"][0]
  return _find_in_layer(model, name, sown)


def _find_in_layer(model: ViT, name: str, sown: Any) -> Array:
  match = _LAYER.fullmatch(name)
  layer, kind = int(match[1]), match[2]
  collection = ATTENTION_MAPS if kind == "attention" else "intermediates"
  blocks = sown[collection]["Transformer"]
  name = "encoderblock" if model.scan_layers else f"encoderblock_{layer}"
  values = blocks[name]
  if kind == "attention":
    values = values["MultiHeadDotProductAttention_0"]
  value = values[kind][0]
  return value[layer] if model.scan_layers else value
