"""Passes of many images through a network, reduced as they are computed."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.inspection.observation import Observation

# Images whose features are kept: 2.4 MB each for L/16 at 384 pixels.
MAX_FEATURES = 128


@dataclasses.dataclass(frozen=True)
class Survey:
  """Of some images, in their order.

  Attributes:
    tokens: Features of the patches of at most `MAX_FEATURES` images.
    distances: Attention distances of all images, in pixels.
    rollout: Attention rollout of the images that are shown.
    heads: Attention maps of the heads, of the images that are shown.

  The last three are None for a ResNet.
  """

  tokens: Float[np.ndarray, "m rows columns d"]
  distances: Float[np.ndarray, "images depth heads"] | None
  rollout: Float[np.ndarray, "shown rows columns"] | None
  heads: Float[np.ndarray, "shown depth heads rows columns"] | None


def survey(
  observe: Callable[[Any, UInt8[np.ndarray, "h w c"]], Observation],
  params: Any,
  images: Sequence[UInt8[np.ndarray, "h w c"]],
  *,
  num_shown: int,
) -> Survey:
  """Looks at images one by one.

  Args:
    observe: Function made by `observation.observer`.
    params: Parameters of that network.
    images: Images, at least one.
    num_shown: Number of images, from the first, that are shown.
  """
  params = jax.device_put(params)
  tokens, distances, rollouts, heads = [], [], [], []
  for number, image in enumerate(images):
    seen = observe(params, image)
    if number < MAX_FEATURES:
      tokens.append(jax.device_get(seen.tokens))
    if seen.attention is None:
      continue
    distances.append(jax.device_get(seen.attention.distances))
    if number < num_shown:
      rollouts.append(jax.device_get(seen.attention.rollout))
      heads.append(jax.device_get(seen.attention.heads))
  return Survey(
    tokens=np.stack(tokens),
    distances=np.stack(distances) if distances else None,
    rollout=np.stack(rollouts) if rollouts else None,
    heads=np.stack(heads) if heads else None,
  )
