"""Supervised classification, with one label or a set of labels per image."""

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax.config import schema
from vit_jax.data import spec
from vit_jax.models import build as models_build
from vit_jax.models import features
from vit_jax.models.layers import normalize
from vit_jax.objectives import contract, losses, mixing
from vit_jax.paper import cost

DeviceOp = Callable[[contract.Batch, Key[Array, ""]], contract.Batch]


def build(
  config: schema.Config, *, num_classes: int, max_labels: int
) -> contract.Objective:
  """The objective of an experiment.

  Args:
    config: the experiment.
    num_classes: classes of the labels and of the model's head.
    max_labels: labels per image; 1: a scalar label, more: a list padded
      with -1.
  """
  return supervised(
    models_build.create(config.model, num_classes=num_classes),
    config,
    spec.parse(
      config.train.preprocess, image_size=config.model.image_size
    ).device_ops(),
    max_labels=max_labels,
  )


def supervised(
  model: nn.Module,
  config: schema.Config,
  device_ops: Sequence[tuple[str, DeviceOp]],
  *,
  max_labels: int,
) -> contract.Objective:
  """Classification by any module with `model(images, train=...) -> logits`.

  Args:
    model: takes uint8 images, which it normalises itself, or floating ones
      that are normalised already; draws dropout from the stream "dropout".
    config: the experiment.
    device_ops: (name, op) pairs applied to the uint8 batch in this order.
    max_labels: labels per image.
  """
  batch_size, size = config.train.batch_size, config.model.image_size
  label_shape = (batch_size,) if max_labels == 1 else (batch_size, max_labels)
  batch_spec = {
    "image": jax.ShapeDtypeStruct((batch_size, size, size, 3), jnp.uint8),
    "label": jax.ShapeDtypeStruct(label_shape, jnp.int32),
  }
  mixes = bool(config.objective.mixup_alpha or config.objective.cutmix_alpha)
  loss_fn = losses.LOSSES[config.objective.loss]

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    images = jnp.zeros((1, size, size, 3), jnp.uint8)
    return model.init(rng, images)["params"], {}

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    for name, op in device_ops:
      batch = op(batch, rngs(name))
    if mixes:
      batch = _mixed(batch, rngs("mixing"), config)
    return batch

  def loss(
    params: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del objective_state, step
    logits = model.apply(
      {"params": params},
      batch["image"],
      train=True,
      rngs={"dropout": rngs("dropout")},
    )

    def per_example(labels: Int[Array, "b ..."]) -> Float[Array, " b"]:
      return loss_fn(
        logits, labels, label_smoothing=config.objective.label_smoothing
      )

    example_loss = per_example(batch["label"])
    right = losses.is_top1(logits, batch["label"])
    if mixes:
      share, other = batch["label_share"], batch["other_label"]
      example_loss = share * example_loss + (1 - share) * per_example(other)
      right = jnp.where(share >= 0.5, right, losses.is_top1(logits, other))
    mean_loss = example_loss.mean()
    metrics = {"loss": mean_loss, "top1": right.astype(jnp.float32).mean()}
    return mean_loss, ({}, metrics)

  def outputs(params: contract.Params, images: Array) -> dict[str, Any]:
    return features.features(model, params, images, ("logits", "pre_logits"))

  return contract.Objective(
    batch_spec=batch_spec,
    init=init,
    prepare=prepare,
    loss=loss,
    after_update=contract.keep_state,
    outputs=outputs,
  )


def forward_flops(config: schema.Config, *, num_classes: int) -> int:
  """FLOPs of an image's forward pass, two per multiply-add."""
  return cost.forward_flops(config.model, num_classes=num_classes)


def _mixed(
  batch: contract.Batch, rng: Key[Array, ""], config: schema.Config
) -> contract.Batch:
  """The batch with mixed float images, both labels and the first's share."""
  images = normalize.normalize(
    batch["image"], config.model.normalize, "float32"
  )
  images, share = mixing.mix(
    images,
    rng,
    mixup_alpha=config.objective.mixup_alpha,
    cutmix_alpha=config.objective.cutmix_alpha,
  )
  return {
    **batch,
    "image": images.astype(config.model.dtype),
    "other_label": jnp.roll(batch["label"], 1, axis=0),
    "label_share": jnp.full((len(images),), share),
  }
