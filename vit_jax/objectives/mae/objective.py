"""Masked autoencoders: He et al., arXiv 2111.06377.

The encoder, a Vision Transformer, sees a quarter of the patches; a small
decoder predicts the pixels of the others from them. There are no labels. The
decoder's parameters are under `decoder`, next to those of the network, and are
dropped when another run starts from the parameters.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from vit_jax.config import schema
from vit_jax.models import features
from vit_jax.objectives import contract, hidden_pixels, masked_autoencoders
from vit_jax.objectives.mae import prediction, start


def mae(config: schema.Config) -> contract.Objective:
  """Builds a masked autoencoder around the Vision Transformer of a config."""
  encoder = prediction.encoder_of(config)
  decoder = prediction.decoder_of(config)
  num_visible = masked_autoencoders.num_visible(config)

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    encoder_rng, start_rng, decoder_rng = jax.random.split(rng, 3)
    images = jnp.zeros((1, *[config.model.image_size] * 2, 3), jnp.uint8)
    params = encoder.init(encoder_rng, images)["params"]
    tokens = jnp.zeros((1, encoder.num_prefix + num_visible, encoder.width))
    visible = jnp.arange(num_visible)[None]
    beside = decoder.init(decoder_rng, tokens, visible)["params"]
    return {
      **start.started(params, start_rng),
      "decoder": start.started(beside),
    }, {}

  return hidden_pixels.objective(
    config,
    init,
    functools.partial(prediction.predict, encoder, decoder),
    lambda params, images: features.features(
      encoder, params, images, ("pre_logits",)
    ),
  )
