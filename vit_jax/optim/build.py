"""The optax optimizer from `config.optimizer` and `config.schedule`."""

import functools
import re
from typing import Any

from etils import epy

from vit_jax import durations, registry
from vit_jax.config import scalars, schema
from vit_jax.errors import UserError
from vit_jax.optim import scalars as scalar_schedules
from vit_jax.optim import schedules, transforms
from vit_jax.suggestions import did_you_mean

with epy.lazy_imports():  # Checking a config must not load jax.
  import numpy as np
  import optax

  from vit_jax import trees
  from vit_jax.optim import clipping, holding, multipliers


def check(config: schema.Config) -> None:
  """Raises UserError for errors that do not depend on data or model."""
  optimizer = config.optimizer
  if optimizer.name not in transforms.OPTIMIZERS:
    known = list(transforms.OPTIMIZERS)
    near = did_you_mean(optimizer.name, known, cutoff=0.0)
    raise UserError(
      f"config.optimizer.name = {optimizer.name!r} is not known; did you"
      f" mean {near!r}? Known: {', '.join(known)}."
    )
  if optimizer.name == "adam" and optimizer.weight_decay:
    raise UserError(
      f"config.optimizer.weight_decay = {optimizer.weight_decay} has no"
      " effect on config.optimizer.name = 'adam'; use 'adamw'."
    )
  family = registry.FAMILIES.get(config.model.name)
  if optimizer.name == "muon" and not family.matrix_optimizer:
    raise UserError(
      "config.optimizer.name = 'muon' is for the matrices of encoder blocks,"
      f" and config.model.name = {config.model.name!r} has none; use 'sgd' or"
      " 'adamw'."
    )
  regexes = [("decay_mask", regex) for regex in optimizer.decay_mask]
  for key in ("lr_multipliers", "decay_multipliers", "freeze_until"):
    regexes += [(key, regex) for regex, _ in getattr(optimizer, key)]
  if optimizer.freeze is not None:
    regexes.append(("freeze", optimizer.freeze))
  for key, regex in regexes:
    try:
      re.compile(regex)
    except re.error as error:
      raise UserError(
        f"config.optimizer.{key}: {regex!r} is not a regular expression:"
        f" {error}."
      ) from None
  schedule = config.schedule
  lengths = (
    schedule.warmup_steps,
    schedule.cooldown_steps,
    schedule.rsqrt_timescale,
    *schedule.boundaries,
  )
  in_epochs = any(durations.parse(x).unit == "epoch" for x in lengths)
  if config.total_steps is not None and not in_epochs:
    schedules.in_steps(
      schedule,
      total_steps=config.total_steps,
      batch_size=config.train.batch_size,
      num_examples=None,
    )


def build(
  config: schema.Config,
  *,
  params: Any,
  total_steps: int,
  batch_size: int,
  num_examples: int | None,
) -> "tuple[optax.GradientTransformation, dict[str, schedules.Schedule]]":
  """Builds the update rule and the scalars that change over the run.

  The gradients are clipped, the optimizer computes updates at the scheduled
  rate, and the factors of the parameters multiply the updates, including weight
  decay. A factor of 0 freezes a parameter: it has no optimizer state and is not
  part of the norm.

  Args:
    config: The experiment.
    params: Parameters or their shapes; only paths and shapes are used.
    total_steps: Number of updates of the run.
    batch_size: Global batch, to count durations given in examples.
    num_examples: Training examples, to count durations given in epochs.

  Returns:
    The transformation, and the schedules to log: updates done -> value of
    `learning_rate`, and of `weight_decay` if that changes.

  Raises:
    UserError: An error from `check`, a regex that matches no parameter, or a
      schedule that does not fit the run.
  """
  check(config)
  optimizer = config.optimizer
  schedule = schedules.learning_rate(
    config.schedule,
    total_steps=total_steps,
    batch_size=batch_size,
    num_examples=num_examples,
  )
  paths = [path for path, _ in trees.named_leaves(params)]
  scheduled = {"learning_rate": schedule}
  decay = scalars.parse(optimizer.weight_decay).first
  if not scalars.is_constant(optimizer.weight_decay):
    decay = scheduled["weight_decay"] = scalar_schedules.schedule(
      optimizer.weight_decay,
      key="config.optimizer.weight_decay",
      total_steps=total_steps,
      batch_size=batch_size,
      num_examples=num_examples,
    )
  tx = transforms.OPTIMIZERS[optimizer.name](
    optimizer,
    schedule,
    transforms.Decay(decay, multipliers.decay_factors(optimizer, paths)),
  )
  if optimizer.freeze_until:
    starts = holding.starts(
      optimizer,
      paths,
      batch_size=batch_size,
      num_examples=num_examples,
      total_steps=total_steps,
    )
    tx = holding.HOLDING[optimizer.freeze_until_mode](tx, starts)
  clip = clipping.clip(optimizer)
  if clip is not None:
    tx = optax.chain(clip, tx)
  layer_of = registry.FAMILIES.get(config.model.name).layer_of
  if layer_of is not None:
    layer_of = functools.partial(layer_of, config.model)
  factors = multipliers.factors(optimizer, params, layer_of)
  if any(np.any(factor != 1) for factor in factors.values()):
    tx = optax.chain(tx, multipliers.scale_by_factors(factors))
  frozen = multipliers.frozen(factors)
  if len(frozen) == len(paths):
    raise UserError(
      "config.optimizer freezes every parameter; let config.optimizer.freeze or"
      " config.optimizer.lr_multipliers leave at least one."
    )
  if frozen:
    tx = optax.partition(
      {"trained": tx, "frozen": optax.set_to_zero()},
      lambda tree: trees.map_named(
        lambda path, _: "frozen" if path in frozen else "trained", tree
      ),
    )
  return tx, scheduled
