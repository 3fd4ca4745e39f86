"""Construction of an `Objective` from `config.objective`."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.data.features import LABEL, TEXT, Features
from vit_jax.errors import UserError
from vit_jax.objectives.kind import ObjectiveKind

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Batch, Objective, Rngs


def kind_of(config: schema.Config) -> ObjectiveKind:
  """Returns the declaration of the objective that the config names."""
  return registry.OBJECTIVES.get(config.objective.name)


def check(config: schema.Config, features: Features) -> None:
  """Checks the config against the objective's declaration.

  Args:
    config: The experiment.
    features: The features of a training batch.

  Raises:
    UserError: The objective cannot be trained with this config.
  """
  name, kind = config.objective.name, kind_of(config)
  if getattr(config.model, "pool", None) == "none":
    raise UserError(
      'config.model.pool = "none" gives features of every patch; objective'
      f' "{name}" needs one of the image: use "cls", "gap" or "map".'
    )
  for feature in kind.needs:
    if feature not in features.names:
      raise UserError(_missing(name, feature, features, config.train))
  kind.check(config)
  if config.train.accumulate_steps > 1 and not kind.decomposes(config):
    raise UserError(
      f"config.train.accumulate_steps = {config.train.accumulate_steps} splits"
      f' batches, but the loss of objective "{name}" compares the examples of a'
      " whole batch; use 1 and more devices, config.model.remat or a smaller"
      " batch."
    )


def _missing(
  name: str, feature: str, features: Features, train: schema.Train
) -> str:
  """Returns the sentence about a feature that batches do not have."""
  if feature == TEXT:
    return (
      f'config.train.preprocess = "{train.preprocess}" makes no text, which'
      f' objective "{name}" learns from; add tokenize.'
    )
  if feature == LABEL and not (features.max_labels or features.num_numbers):
    return (
      f"config.train.dataset = {train.dataset!r} has no labels, which objective"
      f' "{name}" learns from; name a dataset that has, or another objective.'
    )
  if feature == LABEL:
    return (
      f'config.train.preprocess = "{train.preprocess}" drops the labels that'
      f' objective "{name}" learns from; name them in keep.'
    )
  views = ", ".join(train.views) or "is empty, so that batches have 'image'"
  return (
    f"config.train.views ({views}) lacks {feature!r}, which objective"
    f' "{name}" learns from; '
    + ("leave it empty." if feature == "image" else f"add {feature!r} to it.")
  )


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds the objective that the config names.

  Its `prepare` receives batches after the device ops have been applied.

  Args:
    config: The experiment.
    facts: Facts of the training data.
    total_steps: Length of the run in updates.

  Raises:
    UserError: As for `check`.
  """
  check(config, facts.features)
  objective = kind_of(config).build(config, facts, total_steps)

  declared = features(objective, facts)

  def prepare(batch: "Batch", rngs: "Rngs") -> "Batch":
    return objective.prepare(declared.on_device(batch, rngs), rngs)

  return dataclasses.replace(objective, prepare=prepare)


def features(objective: "Objective", facts: DataFacts) -> Features:
  """Returns the features of a training batch; a stored one replaces images."""
  stored = objective.stored
  if stored is None:
    return facts.features
  return facts.features.with_stored(stored.feature, stored.shape)


def forward_flops(config: schema.Config, *, num_classes: int | None) -> int:
  """Counts FLOPs of an example's training forward pass, 2 per multiply-add."""
  return kind_of(config).forward_flops(config, num_classes)


def describe(config: schema.Config) -> Mapping[str, Any]:
  """Describes the objective for a report: label -> text."""
  return kind_of(config).describe(config)
