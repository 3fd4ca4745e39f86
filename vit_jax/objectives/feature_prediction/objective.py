"""Prediction of a teacher's features for masked patches: EVA and EVA-02.

Fang et al., arXiv 2211.07636 and 2303.11331. The student sees an image in which
a mask token replaces two patches in five, and predicts for each of them the
direction of a frozen teacher's features, computed from the whole image. There
are no labels. `mask_token` and `patch_head` are added to the network's
parameters, and are dropped when another run starts from them.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.models import build as models_build
from vit_jax.models import features
from vit_jax.models.layers import heads, token_places
from vit_jax.objectives import contract, masked_places, masked_tokens
from vit_jax.objectives.feature_prediction import kind, start
from vit_jax.objectives.frozen_network import FrozenNetwork

# Minimum product of two lengths. torch.nn.CosineSimilarity
_EPSILON = 1e-8


def feature_prediction(
  config: schema.Config, teacher: FrozenNetwork
) -> contract.Objective:
  """Builds feature prediction by the Vision Transformer of a config.

  Args:
    config: The experiment.
    teacher: Frozen network with the student's grid of patches.
  """
  model, settings = config.model, config.objective
  network = models_build.create(model, num_classes=None)
  width = network.width
  side, _ = registry.FAMILIES.get(model.name).grid(model)
  head = heads.LinearHead(teacher.width, 0.0, model.dtype)

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    model_rng, start_rng, token_rng, head_rng = jax.random.split(rng, 4)
    images = jnp.zeros((1, *[model.image_size] * 2, 3), jnp.uint8)
    params = network.init(model_rng, images)["params"]
    # Zeros, as for a classifier, would give a cosine without a gradient.
    kernel = nn.initializers.xavier_normal()(head_rng, (width, teacher.width))
    return {
      **start.started(params, start_rng, model),
      kind.MASK_TOKEN: start.mask_token(token_rng, width),
      kind.HEAD: {"kernel": kernel, "bias": jnp.zeros(teacher.width)},
    }, {}

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    count, smallest = settings.masked_patches, settings.smallest_block
    return masked_places.prepare(rngs("masks"), batch, count, side, smallest)

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del objective_state, step
    images, mask, places = batch["image"], batch["mask"], batch["places"]
    seen = masked_tokens.encode(
      network,
      params,
      images,
      params[kind.MASK_TOKEN],
      mask,
      dropout=rngs("dropout"),
      embedding_gradient=settings.embedding_gradient,
      read_at=places,
    )
    predicted = head.apply(
      {"params": params[kind.HEAD]}, seen.astype(model.dtype)
    )
    wanted = token_places.take(
      teacher.patches(constants, images, model), places
    )
    similarity = jnp.sum(
      batch["weights"] * cosine(predicted, wanted), axis=1
    ).mean()
    metrics = {
      "loss": -similarity,
      "cosine": similarity,
      "masked_share": mask.astype(jnp.float32).mean(),
    }
    return -similarity, ({}, metrics)

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    return features.features(network, params, batch["image"], ("pre_logits",))

  return contract.Objective(
    init=init,
    prepare=prepare,
    loss=loss,
    outputs=outputs,
    constants=teacher.constants,
  )


def cosine(
  x: Float[Array, "b k d"], y: Float[Array, "b k d"]
) -> Float[Array, "b k"]:
  """Computes cosine similarities in float32; 0 if a vector is zero."""
  x, y = x.astype(jnp.float32), y.astype(jnp.float32)
  squares = jnp.sum(x * x, axis=-1) * jnp.sum(y * y, axis=-1)
  # Clipped under the root, as a length of 0 would have no gradient.
  return jnp.sum(x * y, axis=-1) / jnp.sqrt(jnp.maximum(squares, _EPSILON**2))
