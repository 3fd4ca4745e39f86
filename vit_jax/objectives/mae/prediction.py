"""Prediction of the patches hidden from the encoder."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt8

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.models import build as models_build
from vit_jax.models.layers import token_places
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.objectives import contract
from vit_jax.objectives import patches as patches_of
from vit_jax.objectives.mae import kind
from vit_jax.objectives.mae.decoder import Decoder


def encoder_of(config: schema.Config) -> nn.Module:
  """Builds the network of a config, without a head."""
  return models_build.create(config.model, num_classes=None)


def decoder_of(config: schema.Config) -> Decoder:
  """Builds the decoder of a config."""
  return _decoder(config.model, kind.decoder_model(config))


def decoder_with(model: schema.Model, params: contract.Params) -> Decoder:
  """Builds the decoder of an encoder's `model` that has these parameters."""
  layers = params["Transformer"]
  is_stacked = "encoderblock" in layers
  first = "encoderblock" if is_stacked else "encoderblock_0"
  query = layers[first]["MultiHeadDotProductAttention_0"]["query"]["kernel"]
  width, num_heads = query.shape[-3:-1]
  hidden = layers[first]["MlpBlock_0"]["Dense_0"]["kernel"]
  sizes = model.updated(
    width=width,
    depth=query.shape[0] if is_stacked else len(layers) - 1,
    num_heads=num_heads,
    mlp_dim=hidden.shape[-1],
    mlp="gelu",
    scan_layers=is_stacked,
  )
  return _decoder(model, sizes)


def _decoder(encoder: schema.Model, model: schema.Model) -> Decoder:
  """Builds a decoder for an encoder, with layers like those of `model`."""
  family = registry.FAMILIES.get(encoder.name)
  grid, patch_size = family.grid(encoder)
  size = family.size(model)
  return Decoder(
    config=LayerConfig(
      num_heads=size.num_heads,
      mlp_dim=size.mlp_dim,
      dtype=model.dtype,
      softmax_dtype=model.softmax_dtype,
      attention=model.attention,
      gelu=model.gelu,
      layer_norm_eps=model.layer_norm_eps,
      qkv_bias=model.qkv_bias,
      key_bias=model.key_bias,
    ),
    width=size.width,
    depth=size.depth,
    grid=grid,
    num_outputs=3 * patch_size**2,
    num_prefix=family.num_prefix_tokens(model),
    scan_layers=model.scan_layers,
    remat=model.remat,
  )


def predict(
  encoder: nn.Module,
  decoder: Decoder,
  params: contract.Params,
  images: UInt8[Array, "b h w 3"] | Float[Array, "b h w 3"],
  visible: Int[Array, "b v"],
  dropout: Key[Array, ""] | None = None,
) -> Float[Array, "b n pixels"]:
  """Predicts every patch of images from the visible ones.

  Args:
    encoder: Vision Transformer without a head.
    decoder: The decoder.
    params: Parameters of the encoder, with those of the decoder under
      `decoder`.
    images: Images.
    visible: Indices of the patches that the encoder sees, in any order.
    dropout: Key of dropout and stochastic depth; None to disable them.
  """
  tokens = encoder.apply(
    {"params": params},
    images,
    visible,
    dropout is not None,
    rngs={} if dropout is None else {"dropout": dropout},
    method=visible_features,
  )
  return decoder.apply({"params": params["decoder"]}, tokens, visible)


def visible_features(
  model: nn.Module,
  images: Array,
  visible: Int[Array, "b v"],
  train: bool,
) -> Float[Array, "b k d"]:
  """Encodes prefix tokens and visible patches.

  If a patch's token depends only on its own pixels, hidden patches are dropped
  before the embedding. The class token is prepended to the rest.
  """
  if model.stem_blocks is not None:
    tokens = model.embed(images)
    prefix, patches = jnp.split(tokens, [model.num_prefix], axis=1)
    seen = token_places.take(patches, visible)
  else:
    prefix, seen = _seen_alone(model, images, visible)
  return model.encode(jnp.concatenate([prefix, seen], axis=1), train=train)


def _seen_alone(model, images, visible):
  """Embeds prefix tokens and visible patches, with results equal to `embed`."""
  batch = len(images)
  rows, columns = model.patch_grid(*images.shape[1:3])
  size, num_patches = model.patch_size, rows * columns
  seen = model.embed_patches(
    patches_of.column(images, visible, size, rows, model.dtype)
  )
  nothing = jnp.zeros((1, num_patches, model.width), model.dtype)
  positions = model.add_prefix(nothing, (rows, columns))
  prefix, positions = jnp.split(positions, [model.num_prefix], axis=1)
  prefix = jnp.broadcast_to(prefix, (batch, *prefix.shape[1:]))
  positions = jnp.broadcast_to(positions, (batch, *positions.shape[1:]))
  return prefix, seen + token_places.take(positions, visible)
