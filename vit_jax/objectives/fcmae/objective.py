"""Fully convolutional masked autoencoders: Woo et al., arXiv 2301.00808.

The encoder, a ConvNeXt, sees two fifths of the patches, whose side is the
stride of its last map; a decoder of one block predicts the pixels of the others
from them. There are no labels. The decoder's parameters are under `decoder`,
next to those of the network, and are dropped when another run starts from the
parameters.

The published networks were trained in JAX with convolutions of masked maps
(TRAINING.md of facebookresearch/ConvNeXt-V2). They see what is computed here,
where the dense layers are applied to visible patches alone.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt8

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.models import build, features
from vit_jax.models.convnext import visible_patches
from vit_jax.objectives import contract, hidden_pixels, masked_autoencoders
from vit_jax.objectives import patches as patches_of
from vit_jax.objectives.fcmae.decoder import Decoder


def fcmae(config: schema.Config) -> contract.Objective:
  """Builds a masked autoencoder around the ConvNeXt of a config."""
  model = config.model
  grid, patch_size = registry.FAMILIES.get(model.name).grid(model)
  num_visible = masked_autoencoders.num_visible(config)
  encoder = build.create(model, num_classes=None)
  decoder = Decoder(
    width=config.objective.decoder_width,
    depth=config.objective.decoder_depth,
    num_outputs=3 * patch_size**2,
    version=model.version,
    layer_norm_eps=model.layer_norm_eps,
    dtype=model.dtype,
    depthwise=model.depthwise,
  )

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    encoder_rng, decoder_rng = jax.random.split(rng)
    images = jnp.zeros((1, *[model.image_size] * 2, 3), jnp.uint8)
    params = encoder.init(encoder_rng, images)["params"]
    seen = jnp.zeros((1, num_visible, 1, encoder.widths[-1]))
    chosen = visible_patches.choose(jnp.arange(num_visible)[None], grid, grid)
    beside = decoder.init(decoder_rng, seen, chosen)["params"]
    return {**params, "decoder": beside}, {}

  def predict(
    params: contract.Params,
    images: UInt8[Array, "b h w 3"] | Float[Array, "b h w 3"],
    visible: Int[Array, "b v"],
    dropout: Key[Array, ""] | None,
  ) -> Float[Array, "b n pixels"]:
    chosen = visible_patches.choose(visible, grid, grid)
    seen = encoder.apply(
      {"params": params},
      images,
      visible,
      patch_size,
      grid,
      dropout is not None,
      rngs={} if dropout is None else {"dropout": dropout},
      method=visible_map,
    )
    return decoder.apply({"params": params["decoder"]}, seen, chosen)

  return hidden_pixels.objective(
    config,
    init,
    predict,
    lambda params, images: features.features(
      encoder, params, images, ("pre_logits",)
    ),
  )


def visible_map(
  model: nn.Module,
  images: UInt8[Array, "b h w 3"] | Float[Array, "b h w 3"],
  visible: Int[Array, "b v"],
  size: int,
  grid: int,
  train: bool,
) -> Float[Array, "b v 1 c"]:
  """Computes a ConvNeXt's last map of the visible patches of images.

  Args:
    model: The network.
    images: Images.
    visible: Indices of the patches, row by row.
    size: Side of a patch, pixels: the stride of the map.
    grid: Patches along a side of the image.
    train: True to apply stochastic depth.
  """
  seen = patches_of.column(images, visible, size, grid, model.dtype)
  chosen = visible_patches.choose(visible, grid, grid)
  return model.encode(model.embed(seen), chosen, train=train)
