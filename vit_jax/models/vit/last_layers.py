"""Class tokens and patches of a Vision Transformer's last layers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers.layer_norm import LayerNorm

if TYPE_CHECKING:
  from vit_jax.models.vit.network import ViT


def last_norm(
  network: "ViT", params: Mapping[str, Any]
) -> Callable[[Float[Array, "*b d"]], Float[Array, "*b d"]]:
  """The network's last norm, for the tokens of any layer."""
  scales = (
    params["fc_norm"]
    if network.norm_after_pool
    else params["Transformer"]["encoder_norm"]
  )
  module = LayerNorm(network.layer_norm_eps, network.head_dtype)
  return lambda tokens: module.apply({"params": scales}, tokens)


def normalized(
  network: "ViT",
  params: Mapping[str, Any],
  tokens: Sequence[Float[Array, "b n d"]],
) -> tuple[Float[Array, "b layers d"], Float[Array, "b d"]]:
  """Class tokens of all layers and the mean of the last layer's patches.

  All are normalised by the network's last norm, whose scale and shift belong to
  the last layer but are used for the others too, as in DINO's evaluation. The
  mean is taken as the network would: of normalised patches, or before the norm
  if `norm_after_pool`.

  Args:
    network: The network.
    params: Its parameters.
    tokens: Unnormalised results of the layers, in the order of computation.
  """
  norm = last_norm(network, params)
  class_tokens = norm(jnp.stack([layer[:, 0] for layer in tokens], axis=1))
  patches = tokens[-1][:, network.num_prefix :]
  if network.norm_after_pool:
    patches = patches.astype(network.head_dtype)
    return class_tokens, norm(patches.mean(axis=1))
  return class_tokens, norm(patches).mean(axis=1)
