"""Regression: prediction of one or several numbers per image.

The network learns standardised numbers (deviations from the mean, in units of
the standard deviation), so that learning rate, decay and initialisation suit
any unit. Mean and standard deviation are in the objective's state, which is
saved in checkpoints, and are folded into the exported head: evaluators, `load`,
`predict` and exports use the original numbers.
"""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from vit_jax.config import schema
from vit_jax.data.targets import Targets
from vit_jax.errors import UserError
from vit_jax.models import features
from vit_jax.objectives import contract
from vit_jax.objectives.supervised import augmentation, number_scale

_ERRORS: dict[str, Callable[[Any], Any]] = {"mse": jnp.square, "mae": jnp.abs}


def regression(
  model: nn.Module, config: schema.Config, targets: Targets | None, count: int
) -> contract.Objective:
  """Builds regression with a module `model(images, train=...) -> numbers`.

  Args:
    model: As for `objective.supervised`.
    config: The experiment.
    targets: The numbers; None if the data are missing and no training takes
      place.
    count: Number of values per image.
  """
  size = config.model.image_size
  mixes = bool(config.objective.mixup_alpha or config.objective.cutmix_alpha)
  error_fn = _ERRORS[config.objective.loss]
  mean = np.zeros(count) if targets is None else targets.mean
  std = np.ones(count) if targets is None else targets.std

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    images = jnp.zeros((1, size, size, 3), jnp.uint8)
    params = model.init(rng, images)["params"]
    if not number_scale.has_head(params):
      raise UserError(
        f"config.model.name = {config.model.name!r} has no linear head, which"
        f" config.objective.loss = {config.objective.loss!r} learns numbers"
        " by; take another family."
      )
    return params, number_scale.state(mean, std)

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
    del constants, step
    predicted = model.apply(
      {"params": params},
      batch["image"],
      train=True,
      rngs={"dropout": rngs("dropout")},
    )
    wanted = batch["label"]
    if mixes:
      share = batch["label_share"][:, None]
      wanted = share * wanted + (1 - share) * batch["other_label"]
    wanted = number_scale.standardised(wanted, objective_state)
    error = predicted.astype(jnp.float32) - wanted
    value = error_fn(error).mean()
    return value, ({}, {"loss": value})

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    wanted = ("logits", "pre_logits")
    return features.features(model, params, batch["image"], wanted)

  return contract.Objective(
    init=init,
    prepare=prepare,
    loss=loss,
    outputs=outputs,
    from_exported=number_scale.from_exported,
  )
