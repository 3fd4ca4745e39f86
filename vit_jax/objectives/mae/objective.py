"""Masked autoencoders: He et al., arXiv 2111.06377.

The encoder, a Vision Transformer, sees a quarter of the patches; a small
decoder predicts the pixels of the others from them. There are no labels. The
decoder's parameters are under `decoder`, next to those of the network, and are
dropped when another run starts from the parameters.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.models import features
from vit_jax.models.layers import token_places
from vit_jax.objectives import contract
from vit_jax.objectives.mae import kind, prediction, reconstruction, start


def mae(config: schema.Config) -> contract.Objective:
  """Builds a masked autoencoder around the Vision Transformer of a config."""
  model = config.model
  encoder = prediction.encoder_of(config)
  decoder = prediction.decoder_of(config)
  reconstruct = reconstruction.reconstructor(config, encoder, decoder)
  grid, patch_size = registry.FAMILIES.get(model.name).grid(model)
  num_visible = kind.num_visible(config)

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    encoder_rng, start_rng, decoder_rng = jax.random.split(rng, 3)
    images = jnp.zeros((1, *[model.image_size] * 2, 3), jnp.uint8)
    params = encoder.init(encoder_rng, images)["params"]
    tokens = jnp.zeros((1, encoder.num_prefix + num_visible, encoder.width))
    visible = jnp.arange(num_visible)[None]
    beside = decoder.init(decoder_rng, tokens, visible)["params"]
    return {
      **start.started(params, start_rng),
      "decoder": start.started(beside),
    }, {}

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    images = batch["image"]
    visible = prediction.draw(rngs("masks"), len(images), grid**2, num_visible)
    return {"image": images, "visible": visible}

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del constants, objective_state, step
    images, visible = batch["image"], batch["visible"]
    predicted = prediction.predict(
      encoder, decoder, params, images, visible, dropout=rngs("dropout")
    )
    wanted = prediction.targets(
      images, patch_size, grid, model.normalize, config.objective
    )
    errors = jnp.square(predicted.astype(jnp.float32) - wanted).mean(axis=2)
    is_visible = token_places.put(
      jnp.ones((*visible.shape, 1)), visible, grid**2
    )[:, :, 0]
    masked = 1 - is_visible
    value = jnp.sum(errors * masked) / jnp.sum(masked)
    return value, ({}, {"loss": value})

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    images = batch["image"]
    found = features.features(encoder, params, images, ("pre_logits",))
    if "decoder" in params and "id" in batch:
      found |= reconstruct(params, images, batch["id"])
    return found

  return contract.Objective(
    init=init, prepare=prepare, loss=loss, outputs=outputs
  )
