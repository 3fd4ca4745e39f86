"""What a ViT computes on the way to its logits, by name.

Names: 'logits', 'pre_logits' (the feature that the head sees), 'encoded'
(tokens after the last LayerNorm), 'embedded' (tokens that enter the first
layer), and for each layer 'layer_00/tokens' (its result) and
'layer_00/attention' (its maps, [b, heads, n, n]).
"""

import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.errors import UserError
from vit_jax.models.attention import ATTENTION_MAPS
from vit_jax.models.vit import ViT

_LAYER = re.compile(r"layer_(\d+)/(tokens|attention)")


def features(
  model: ViT,
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
  if any(name.endswith("/attention") for name in names):
    collections.append(ATTENTION_MAPS)
  result, sown = model.apply({"params": params}, images, mutable=collections)
  return {name: _find(model, name, result, sown) for name in names}


def feature_names(model: ViT) -> list[str]:
  """Every name that `features` takes, in the order of computation."""
  names = ["embedded"]
  for i in range(model.depth):
    names += [f"layer_{i:02d}/attention", f"layer_{i:02d}/tokens"]
  names += ["encoded", "pre_logits"]
  return names if model.num_classes is None else [*names, "logits"]


def _unknown(name: str, known: list[str]) -> str:
  if name == "logits":
    return "The model has no head, so it has no 'logits'; use 'pre_logits'."
  close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
  hint = f" Did you mean '{close[0]}'?" if close else ""
  layers = [known[1], known[-3 if known[-1] != "logits" else -4]]
  names = [n for n in known if not n.startswith("layer_")]
  return (
    f"The model has no feature '{name}'.{hint} It has {', '.join(names)}, and"
    f" from '{layers[0]}' to '{layers[1]}' each layer's attention and tokens."
  )


def _find(model: ViT, name: str, result: Any, sown: Any) -> Array:
  if name == "logits":
    return result
  if name == "pre_logits":
    return sown["intermediates"]["representation"][0]
  match = _LAYER.fullmatch(name)
  if match is None:
    values = sown["intermediates"]
    values = values["Transformer"] if name == "embedded" else values
    return values[name][0]
  layer, kind = int(match[1]), match[2]
  collection = ATTENTION_MAPS if kind == "attention" else "intermediates"
  blocks = sown[collection]["Transformer"]
  name = "encoderblock" if model.scan_layers else f"encoderblock_{layer}"
  values = blocks[name]
  if kind == "attention":
    values = values["MultiHeadDotProductAttention_0"]
  value = values[kind][0]
  return value[layer] if model.scan_layers else value
