"""Image features from a network of any family."""

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
  """Computes features of images, without dropout.

  Args:
    model: A network as returned by `load` or `create_model`.
    params: Its parameters.
    images: Bytes, or floats that are already normalised.
    names: Names from `feature_names` to return instead of the two below.

  Returns:
    `tokens` [b, n, d], after the last norm: prefix tokens first, or the
    positions of the last map row by row; and `pooled` [b, d], the input of a
    head. With `names`, each feature by its name, as the network returns it.

  Raises:
    UserError: The network does not accept images of this size, or does not have
      a feature.

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
