"""Features of images by a network of any family."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.models import features as models_features


def features(
  model: nn.Module,
  params: Any,
  images: UInt8[Array | np.ndarray, "b h w c"]
  | Float[Array | np.ndarray, "b h w c"],
  names: Sequence[str] | None = None,
) -> dict[str, Float[Array, "b ..."]]:
  """The features of images, without dropout.

  Args:
    model: A network, as `load` and `create_model` return it.
    params: Its parameters.
    images: Bytes, or floats that are normalised already.
    names: Those of `feature_names` that are wanted in place of the two below.

  Returns:
    `tokens` [b, n, d], after the last norm, prefix tokens first, or the last
    map's places row by row; and `pooled` [b, d], what a head would see. With
    `names` each by its name, as the network has it.

  Raises:
    UserError: The network does not take images of this size, or lacks a
      feature.

  Example:
    model, params = vit_jax.load("dinov2-base")
    pooled = vit_jax.features(model, params, images)["pooled"]
    name = "layer_11/attention"
    attention = vit_jax.features(model, params, images, [name])[name]
  """
  if names is not None:
    return models_features.features(model, params, images, names)
  found = models_features.features(
    model, params, images, ("encoded", "pre_logits")
  )
  tokens = found["encoded"]
  return {
    "tokens": tokens.reshape(len(tokens), -1, tokens.shape[-1]),
    "pooled": found["pre_logits"],
  }


def feature_names(model: nn.Module) -> list[str]:
  """Lists the names that `features` takes, in the order of computation.

  'logits', 'pre_logits' (`pooled`) and 'encoded' (`tokens`); results of layers
  or blocks, such as 'layer_00/tokens' and 'stage1/block01'; and maps of
  attention, such as 'layer_00/attention', [b, heads, n, n].
  """
  return models_features.feature_names(model)


def feature_maps(
  model: nn.Module,
  params: Any,
  images: UInt8[Array | np.ndarray, "b h w c"]
  | Float[Array | np.ndarray, "b h w c"],
  layers: Sequence[int] | None = None,
  *,
  norm: bool = False,
) -> list[Float[Array, "b rows columns d"]]:
  """Maps of the patches after layers or stages, for detection and segmentation.

  A Vision Transformer has one after each layer, all of one size, from which
  prefix tokens are left out. A hierarchical network has one for each stage, at
  a stride of 4, 8, 16 and 32 pixels, before it is merged for the next: what
  timm's `features_only` gives, with channels last.

  Args:
    model: A network, as `load` and `create_model` return it.
    params: Its parameters.
    images: Bytes, or floats that are normalised already.
    layers: Numbers of the layers or stages, from 0, or from -1 backwards; None:
      all.
    norm: True to apply the last norm to each, as DINOv2's
      `get_intermediate_layers` does; only Vision Transformers have one.

  Raises:
    UserError: There is no such layer or norm, or the network does not take
      images of this size.

  Example:
    model, params = vit_jax.load("dinov2-base")
    maps = vit_jax.feature_maps(model, params, images, [2, 5, 8, 11])
  """
  return models_features.maps(model, params, images, layers, norm=norm)
