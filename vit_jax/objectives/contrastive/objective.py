"""Contrastive training of two towers to match images and texts."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax.config import schema
from vit_jax.models import build as models_build
from vit_jax.objectives import contract
from vit_jax.objectives.contrastive import frozen_tower, losses
from vit_jax.objectives.contrastive.kind import loss_of
from vit_jax.sharding import micro_batches

_IMAGE, _FEATURE, _TEXT = "image", "image_feature", "text"
_SCALE = "logit_scale"


def contrastive(config: schema.Config) -> contract.Objective:
  """Builds contrastive learning of the two towers of a config.

  With `train.accumulate_steps` the towers embed one micro-batch at a time, and
  again in the backward pass; the loss is that of the whole batch, because all
  of its texts are compared with all of its images.

  If `config.optimizer` freezes all parameters of the image tower, it runs as in
  evaluation, without dropout, and only once, because there is no backward pass
  through it.
  """
  network = models_build.create(config.model, num_classes=None)
  num_micro = config.train.accumulate_steps

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    side = config.model.image_size
    images = jnp.zeros((1, side, side, 3), jnp.uint8)
    return network.init(rng, images)["params"], {}

  shapes, _ = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
  is_frozen = frozen_tower.is_frozen(config.optimizer, shapes)
  stored = frozen_tower.stored(config, network, shapes, _FEATURE)
  taken = (_FEATURE if is_frozen else _IMAGE, _TEXT)
  embeddings = _of_features if is_frozen else _of_images

  def embed(params, batch, key):
    return network.apply(
      {"params": params},
      *(batch[name] for name in taken),
      rngs={"dropout": key},
      method=embeddings,
    )

  def with_features(params, batch):
    """Adds the frozen tower's features of the images to the batch."""
    mesh = jax.sharding.get_abstract_mesh()
    parts = micro_batches.split(batch[_IMAGE], num_micro, mesh)
    found = jax.lax.map(
      lambda images: frozen_tower.features(network, params, images), parts
    )
    return {**batch, _FEATURE: micro_batches.join(found, mesh)}

  def embed_all(params, batch, key):
    """Embeds the batch; only the embeddings are kept."""
    mesh = jax.sharding.get_abstract_mesh()

    def embed_one(_, numbered):
      index, micro_batch = numbered
      found = embed(params, micro_batch, jax.random.fold_in(key, index))
      return None, found

    parts = {
      name: micro_batches.split(batch[name], num_micro, mesh) for name in taken
    }
    _, found = jax.lax.scan(
      jax.checkpoint(embed_one), None, (jnp.arange(num_micro), parts)
    )
    return tuple(micro_batches.join(x, mesh) for x in found)

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del constants, objective_state, step
    if is_frozen and stored is None:
      batch = with_features(params, batch)
    embed_batch = embed if num_micro == 1 else embed_all
    image, text = embed_batch(params, batch, rngs("dropout"))
    scale = jnp.exp(params[_SCALE])
    metrics = {"scale": scale}
    if loss_of(config) == "softmax":
      value = losses.softmax_loss(image, text, scale)
    else:
      metrics["bias"] = params["logit_bias"]
      value = losses.sigmoid_loss(image, text, scale, metrics["bias"])
    return value, ({}, metrics)

  def constrain(params: contract.Params) -> contract.Params:
    largest = config.objective.max_scale
    if largest is None:
      return params
    bounded = jnp.clip(params[_SCALE], 0.0, jnp.log(largest))
    return {**params, _SCALE: bounded}

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    found = {"scale": jnp.exp(params[_SCALE])}
    if "image" in batch:
      embedded, sown = network.apply(
        {"params": params}, batch["image"], mutable="intermediates"
      )
      found |= embedded
      found["pre_logits"] = sown["intermediates"]["representation"][0]
    if "text" in batch:
      found |= network.apply({"params": params}, None, batch["text"])
    return found

  return contract.Objective(
    init=init,
    loss=loss,
    outputs=outputs,
    constrain=constrain,
    accumulates=True,
    stored=stored,
  )


def _of_images(network, images, text):
  return (
    network.embed_images(images, train=True),
    network.embed_text(text, train=True),
  )


def _of_features(network, features, text):
  return (
    network.embed_features(features),
    network.embed_text(text, train=True),
  )
