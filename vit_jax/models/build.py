"""Networks by name, built by their families. Imports jax only to build one."""

from typing import TYPE_CHECKING

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.family import Family

if TYPE_CHECKING:
  import flax.linen as nn


def create(model: schema.Model, *, num_classes: int | None) -> "nn.Module":
  """Creates the network that `config.model` specifies, without parameters.

  Args:
    model: The resolved section; its own `num_classes` is ignored.
    num_classes: Outputs of the head; None for no head.

  Raises:
    UserError: As `check`.
  """
  check(model)
  return registry.FAMILIES.get(model.name).create(model, num_classes)


def check(model: schema.Model) -> None:
  """Checks `config.model` without importing jax.

  Raises:
    UserError: Names the key, its value and a remedy.
  """
  registry.FAMILIES.get(model.name).check(model)


def check_last_layers(model: schema.Model, count: int) -> None:
  """Raises UserError unless `features.last_layers` can give `count` layers.

  Args:
    model: The resolved section.
    count: Number of layers.
  """
  family = registry.FAMILIES.get(model.name)
  known = family.num_class_layers(model)
  if not known:
    raise UserError(
      f"{family.describe(model)} (config.model) has no class token in its"
      " layers; use a network that has one."
    )
  if count > known:
    raise UserError(
      f"{family.describe(model)} (config.model) has no more than {known}"
      f" layers, not {count}; ask for fewer."
    )


def config_of(network: "nn.Module") -> schema.Model:
  """The section from which `create` makes this network.

  `num_classes` is that of its head; sizes are given as a variant if one has
  them.
  """
  return family_of(network).config_of(network)


def family_of(network: "nn.Module") -> Family:
  """The family that a network belongs to."""
  return registry.FAMILIES.get(network.family)
