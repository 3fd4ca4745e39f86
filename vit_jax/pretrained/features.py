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
