"""Classification, with one label or a set of labels per image."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from vit_jax.config import schema
from vit_jax.models import features
from vit_jax.models.layers.heads import HEADS
from vit_jax.objectives import contract, losses
from vit_jax.objectives.frozen_network import FrozenNetwork
from vit_jax.objectives.supervised import augmentation, distillation


def supervised(
  model: nn.Module,
  config: schema.Config,
  teacher: FrozenNetwork | None = None,
  class_weights: Float[np.ndarray, " classes"] | None = None,
) -> contract.Objective:
  """Builds classification with a module `model(images, train=...) -> logits`.

  Args:
    model: Module that takes uint8 images, which it normalises itself, or
      normalised floating-point images; it draws dropout from the stream
      "dropout".
    config: The experiment.
    teacher: Network whose predictions are also learned, by the head that the
      model sows as "distillation" in `HEADS`, or else by its only head.
    class_weights: Loss weights of images by class; None for 1.
  """
  size = config.model.image_size
  mixes = bool(config.objective.mixup_alpha or config.objective.cutmix_alpha)
  loss_fn = losses.LOSSES[config.objective.loss]
  distill = distillation.LOSSES[config.objective.distillation]

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    images = jnp.zeros((1, size, size, 3), jnp.uint8)
    return model.init(rng, images)["params"], {}

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    return augmentation.augmented(batch, rngs, config)

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del objective_state, step
    logits, sown = model.apply(
      {"params": params},
      batch["image"],
      train=True,
      rngs={"dropout": rngs("dropout")},
      mutable=[HEADS],
    )
    learned = logits
    if teacher is not None and HEADS in sown:
      (logits,), (learned,) = (
        sown[HEADS][name] for name in ("class", "distillation")
      )

    weights = None if class_weights is None else jnp.asarray(class_weights)

    def per_example(labels: Int[Array, "b ..."]) -> Float[Array, " b"]:
      value = loss_fn(
        logits, labels, label_smoothing=config.objective.label_smoothing
      )
      return value if class_weights is None else value * weights[labels]

    right = losses.is_top1(logits, batch["label"])
    if not mixes:
      example_loss = per_example(batch["label"])
    else:
      share, other = batch["label_share"], batch["other_label"]
      if config.objective.binarize_targets:
        both = _both(batch["label"], other, share)
        example_loss = per_example(both)
      else:
        own_loss = per_example(batch["label"])
        example_loss = share * own_loss + (1 - share) * per_example(other)
      right = jnp.where(share >= 0.5, right, losses.is_top1(logits, other))
    mean_loss = example_loss.mean()
    metrics = {"loss": mean_loss, "top1": right.astype(jnp.float32).mean()}
    if teacher is None:
      return mean_loss, ({}, metrics)
    taught = teacher.logits(constants, batch["image"], config.model)
    divergence = distill(
      learned, taught, config.objective.distillation_temperature
    ).mean()
    agreement = jnp.argmax(learned, axis=1) == jnp.argmax(taught, axis=1)
    weight = config.objective.distillation_weight
    total = (1 - weight) * mean_loss + weight * divergence
    metrics |= {
      "loss": total,
      "label_loss": mean_loss,
      "distillation_loss": divergence,
      "teacher_agreement": agreement.astype(jnp.float32).mean(),
    }
    return total, ({}, metrics)

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    wanted = ("logits", "pre_logits")
    return features.features(model, params, batch["image"], wanted)

  return contract.Objective(
    init=init,
    prepare=prepare,
    loss=loss,
    outputs=outputs,
    constants=contract.Constants() if teacher is None else teacher.constants,
  )


def _both(
  own: Int[Array, "b ..."],
  other: Int[Array, "b ..."],
  share: Float[Array, " b"],
) -> Int[Array, "b labels"]:
  """Returns both labels of an image, except those with a share of 0."""
  own, other = (x.reshape(len(x), -1) for x in (own, other))
  share = share[:, None]
  return jnp.concatenate(
    [jnp.where(share > 0, own, -1), jnp.where(share < 1, other, -1)], axis=1
  )
