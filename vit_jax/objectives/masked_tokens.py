"""Encoding of images in which a mask token replaces some patches."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from vit_jax.models.layers.encoder_block import LAYER_TOKENS
from vit_jax.objectives.contract import Params


def encode(
  network: nn.Module,
  params: Params,
  images: UInt8[Array, "b h w 3"] | Float[Array, "b h w 3"],
  mask_token: Float[Array, "*one d"],
  mask: Bool[Array, "b n"] | None,
  *,
  dropout: Key[Array, ""] | None = None,
  embedding_gradient: float = 1.0,
  num_read: int | None = None,
  read_at: Int[Array, "b k"] | None = None,
) -> Float[Array, "b r d"]:
  """Returns tokens after the last layer: all, prefix tokens first, or some.

  Args:
    network: Vision Transformer without a head.
    params: Its parameters.
    images: Images.
    mask_token: Embedding that replaces a masked patch, without positions.
    mask: True for patches that it replaces; None if there are none.
    dropout: Key of dropout and stochastic depth; None to disable them.
    embedding_gradient: Fraction of the gradient that reaches the patch
      embedding.
    num_read: Number of leading tokens that are read; None for all.
    read_at: Indices of the patches that are read instead.
  """
  return network.apply(
    {"params": params},
    images,
    mask_token,
    mask,
    dropout is not None,
    embedding_gradient,
    num_read,
    None if read_at is None else network.num_prefix + read_at,
    rngs=_rngs(dropout),
    method=_encode,
  )


def encode_twice(
  network: nn.Module,
  params: Params,
  images: UInt8[Array, "b h w 3"] | Float[Array, "b h w 3"],
  mask_token: Float[Array, "*one d"],
  mask: Bool[Array, "b n"],
  *,
  dropout: Key[Array, ""],
  read_at: Int[Array, "b k"],
  early_layers: int,
) -> tuple[Float[Array, "b k d"], Float[Array, "b m d"]]:
  """Returns patches after the last layer, and tokens of two layers.

  Args:
    network: Vision Transformer without a head, and with a class token.
    params: Its parameters.
    images: Images.
    mask_token: Embedding that replaces a masked patch, without positions.
    mask: True for patches that it replaces.
    dropout: Key of dropout and stochastic depth.
    read_at: Indices of the patches that are read.
    early_layers: Number of a layer, from 1.

  Returns:
    The patches at `read_at`, normalised; and without a norm, the prefix tokens
    after the last layer and all patches after layer `early_layers`.
  """
  count = network.num_prefix
  prefix = jnp.broadcast_to(jnp.arange(count), (len(images), count))
  tokens, sown = network.apply(
    {"params": params},
    images,
    mask_token,
    mask,
    True,
    1.0,
    None,
    jnp.concatenate([prefix, count + read_at], axis=1),
    rngs=_rngs(dropout),
    mutable=[LAYER_TOKENS],
    method=_encode,
  )
  layers = sown[LAYER_TOKENS]["Transformer"]
  if network.scan_layers:
    (stacked,) = layers["encoderblock"]["tokens"]
    early, last = stacked[early_layers - 1], stacked[-1]
  else:
    (early,), (last,) = (
      layers[f"encoderblock_{layer - 1}"]["tokens"]
      for layer in (early_layers, network.depth)
    )
  joined = jnp.concatenate([last[:, :count], early[:, count:]], axis=1)
  return tokens[:, count:], joined


def _rngs(dropout: Key[Array, ""] | None) -> dict[str, Key[Array, ""]]:
  return {} if dropout is None else {"dropout": dropout}


def _encode(
  network,
  images,
  mask_token,
  mask,
  train,
  embedding_gradient,
  num_read,
  read_at,
):
  grid = network.patch_grid(*images.shape[1:3])
  patches = network.embed_patches(images)
  if embedding_gradient < 1:
    # The value is bitwise that of the patches, as 0 is added.
    fixed = jax.lax.stop_gradient(patches)
    patches = fixed + embedding_gradient * (patches - fixed)
  if mask is not None:
    token = mask_token.astype(patches.dtype)
    patches = jnp.where(mask[:, :, None], token, patches)
  return network.encode(
    network.add_prefix(patches, grid),
    grid=grid,
    train=train,
    num_read=num_read,
    read_at=read_at,
  )
