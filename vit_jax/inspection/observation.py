"""Passing images through a network, reduced to a few small arrays.

Attention maps are large, with heads x n^2 numbers in every layer: 21 MB for
L/16 at 384 pixels, 0.5 GB over its layers. Images are therefore processed one
by one, and maps are reduced in the same compiled program, which need not keep a
layer's maps for the next.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.inspection import attention_distance, rollout
from vit_jax.inspection.network import Network
from vit_jax.models.features import POOL_ATTENTION, features

# Number of images with features kept: 2.4 MB each for L/16 at 384 pixels.
MAX_FEATURES = 128


class Attention(NamedTuple):
  """The attention maps of an image, reduced.

  Attributes:
    distances: Mean distance of each head, in pixels.
    heads: Attention of the token from which the image's feature is pooled, by
      head; a map sums to one minus the attention to the cls token.
    rollout: Share of each patch in the image's feature, with the same sum.
  """

  distances: Float[Array, "depth heads"]
  heads: Float[Array, "depth heads rows columns"]
  rollout: Float[Array, "rows columns"]


class Observation(NamedTuple):
  """The results for one image.

  Attributes:
    tokens: Features of the patches, or the last map of a network of stages,
      after the last norm.
    attention: None for a network whose family keeps no attention maps.
  """

  tokens: Float[Array, "rows columns d"]
  attention: Attention | None


def observer(
  network: Network,
) -> Callable[[Any, UInt8[np.ndarray, "h w c"]], Observation]:
  """Returns a compiled function of this network's parameters and an image."""

  def observe(params: Any, image: UInt8[Array, "h w c"]) -> Observation:
    names = ["encoded"]
    if network.has_attention:
      names += layer_names(network)
      names += [POOL_ATTENTION] if network.module.pool == "map" else []
    found = features(network.module, params, image[None], names)
    tokens = found["encoded"][0].astype(jnp.float32)
    if tokens.ndim == 2:
      tokens = tokens[network.num_extra_tokens :].reshape(*network.grid, -1)
    if not network.has_attention:
      return Observation(tokens, None)
    weights = pooling_weights(network, found.get(POOL_ATTENTION))
    maps = [found[name][0] for name in layer_names(network)]
    return Observation(tokens, _attention(network, weights, maps))

  return jax.jit(observe)


@dataclasses.dataclass(frozen=True)
class Survey:
  """The results for several images, in order.

  Attributes:
    tokens: Features of the patches of at most `MAX_FEATURES` images.
    distances: Attention distances of all images, in pixels.
    rollout: Attention rollout of the images shown.
    heads: Attention maps of the heads for the images shown.

  The last three are None for a network without attention maps.
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
  """Observes images one by one.

  Args:
    observe: Function returned by `observer`.
    params: Parameters of that network.
    images: Images, at least one.
    num_shown: Number of images shown, starting from the first.
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


def layer_names(network: Network) -> list[str]:
  """Returns the names of attention map features, first layer first."""
  return [f"layer_{i:02d}/attention" for i in range(network.module.depth)]


def pooling_weights(
  network: Network, pool_maps: Float[Array, "1 heads 1 patches"] | None
) -> Float[Array, " n"]:
  """Returns the share of each token in the pooled feature.

  It is the cls token alone, the mean of the patches, half of each for
  'cls_gap', or, for 'map', the attention of the pooling query averaged over
  heads. With 'none', where every token has its own output, the mean of the
  patches is used.
  """
  extra = network.num_extra_tokens
  num_patches = network.grid[0] * network.grid[1]
  if pool_maps is not None:
    shares = jnp.mean(pool_maps[0, :, 0], axis=0)
    return jnp.pad(shares, (extra + num_patches - len(shares), 0))
  cls = jnp.zeros(extra + num_patches).at[0].set(1.0)
  if network.module.pool == "cls":
    return cls
  mean = jnp.full(extra + num_patches, 1 / num_patches).at[:extra].set(0.0)
  return (cls + mean) / 2 if network.module.pool == "cls_gap" else mean


def _attention(
  network: Network,
  weights: Float[Array, " n"],
  maps: list[Float[Array, "heads n n"]],
) -> Attention:
  extra = network.num_extra_tokens
  distances = attention_distance.between_patches(network.grid, network.stride)
  rolled = rollout.start(len(weights))
  by_layer, heads = [], []
  for layer in maps:
    by_layer.append(attention_distance.mean_distance(layer, distances))
    pooled = jnp.einsum("q,hqk->hk", weights, layer)[:, extra:]
    heads.append(pooled.reshape(-1, *network.grid))
    rolled = rollout.through_layer(rolled, layer)
  return Attention(
    distances=jnp.stack(by_layer),
    heads=jnp.stack(heads),
    rollout=(weights @ rolled)[extra:].reshape(network.grid),
  )
