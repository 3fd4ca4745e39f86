"""Intermediate results of a network on the way to its logits, by name.

All have 'logits', 'pre_logits' (the feature that the head sees) and 'encoded'
(tokens, or a ResNet's maps, after the last norm). A Vision Transformer also has
'stem' (a hybrid's maps), 'embedded' (tokens that enter the first layer), and
for each layer 'layer_00/tokens' (its result) and 'layer_00/attention' (its
maps, [b, heads, n, n]); with attention pooling it has 'pool_attention', [b,
heads, 1, n]. A ResNet has 'root' and the result of each unit, 'block1/unit01'.
A ConvNeXt has 'stem', the result of each block, 'stage1/block01', and of each
stage, 'stage1'; its 'encoded' is the last one, as its norm follows the pooling.
A Swin has 'stem', the result of each block, 'stage1/block01', and of each
stage, 'stage1', before it is merged.
"""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.layers.attention import ATTENTION_MAPS
from vit_jax.suggestions import did_you_mean

POOL_ATTENTION = "pool_attention"


def features(
  model: nn.Module,
  params: Any,
  images: UInt8[Array | np.ndarray, "b h w c"]
  | Float[Array | np.ndarray, "b h w c"],
  names: Sequence[str],
) -> dict[str, Float[Array, "b ..."]]:
  """Computes the named features of images, without dropout.

  Under `jax.jit`, features that are not named are not kept.

  Raises:
    UserError: The model has no feature of this name.
  """
  family, known = build.family_of(model), feature_names(model)
  for name in names:
    if name not in known:
      raise UserError(_unknown(name, known))
  collections = ["intermediates"]
  if any(name.endswith("attention") for name in names):
    collections.append(ATTENTION_MAPS)
  result, sown = model.apply({"params": params}, images, mutable=collections)
  found = {
    "logits": lambda: result,
    "pre_logits": lambda: sown["intermediates"]["representation"][0],
  }
  return {
    name: found[name]() if name in found else family.feature(model, name, sown)
    for name in names
  }


def feature_maps(
  model: nn.Module,
  params: Any,
  images: UInt8[Array | np.ndarray, "b h w c"]
  | Float[Array | np.ndarray, "b h w c"],
  layers: Sequence[int] | None = None,
  *,
  norm: bool = False,
) -> list[Float[Array, "b rows columns d"]]:
  """Maps of patches after layers or stages, for detection and segmentation.

  A Vision Transformer has one after each layer, all of the same size and
  without prefix tokens. A hierarchical network has one for each stage, at
  strides of 4, 8, 16 and 32 pixels, before merging for the next stage.

  They equal those of timm's `features_only` and `forward_intermediates`, with
  channels last and without the map of a ResNet's stem. As in timm, a norm is
  applied only if `norm` is True, and never to stages.

  Args:
    model: A network, as returned by `load` or `create_model`.
    params: Its parameters.
    images: Bytes, or floats that are already normalised.
    layers: Numbers of the layers or stages, from 0, or from -1 backwards; None
      for all.
    norm: True to apply the last norm to each map, as DINOv2's
      `get_intermediate_layers` does; only Vision Transformers have it.

  Raises:
    UserError: There is no such layer or norm, or the network does not accept
      images of this size.

  Example:
    model, params = vit_jax.load("dinov2-base")
    maps = vit_jax.feature_maps(model, params, images, [2, 5, 8, 11])
  """
  family = build.family_of(model)
  names = family.map_names(model)
  if layers is not None:
    count = len(names)
    beyond = [n for n in layers if not -count <= n < count]
    if beyond:
      raise UserError(
        f"layers = {list(layers)}: {beyond[0]} is none of the network's layers"
        f" or stages, which count from 0 to {count - 1}, or from -1 back to"
        f" {-count}."
      )
    names = [names[n] for n in layers]
  last_norm = family.last_norm(model, params) if norm else lambda x: x
  if last_norm is None:
    raise UserError(
      f"norm = True: a {family.title} has no norm that serves all of its"
      " layers; leave it out."
    )
  section = build.config_of(model)
  # Not the height divided by the stride: a stem's convolutions round up.
  rows, _ = family.grid(section.updated(image_size=images.shape[1]))
  found = features(model, params, images, names)

  def shaped(x: Array) -> Array:
    if x.ndim == 4:
      return x
    x = x[:, family.num_prefix_tokens(section) :]
    return x.reshape(len(x), rows, -1, x.shape[-1])

  return [shaped(last_norm(found[name])) for name in names]


def last_layers(
  model: nn.Module,
  params: Any,
  images: UInt8[Array | np.ndarray, "b h w c"]
  | Float[Array | np.ndarray, "b h w c"],
  count: int,
) -> tuple[Float[Array, "b {count} d"], Float[Array, "b d"]]:
  """Class tokens of the last layers and the mean of the last one's patches.

  Both are normalised as the network normalises its last layer, so the last
  class token is that of 'encoded'. Layers are in the order of computation;
  neither dropout nor the head is used.

  Raises:
    UserError: As `build.check_last_layers`.
  """
  family = build.family_of(model)
  build.check_last_layers(build.config_of(model), count)
  _, sown = model.apply({"params": params}, images, mutable=["intermediates"])
  return family.last_layers(model, params, sown, count)


def feature_names(model: nn.Module) -> list[str]:
  """Lists the names that `features` accepts, in the order of computation.

  They are 'logits', 'pre_logits' (`pooled`) and 'encoded' (`tokens`); results
  of layers or blocks, such as 'layer_00/tokens' and 'stage1/block01'; and
  attention maps, such as 'layer_00/attention', [b, heads, n, n].
  """
  names = build.family_of(model).feature_names(model)
  return names if model.num_classes is None else [*names, "logits"]


def _unknown(name: str, known: list[str]) -> str:
  if name == "logits":
    return "The model has no head, so it has no 'logits'; use 'pre_logits'."
  near = did_you_mean(name, known)
  hint = f" Did you mean '{near}'?" if near else ""
  layers = [n for n in known if "/" in n]
  names = [n for n in known if "/" not in n]
  return (
    f"The model has no feature '{name}'.{hint} It has {', '.join(names)}, and"
    f" every layer's from '{layers[0]}' to '{layers[-1]}'."
  )
