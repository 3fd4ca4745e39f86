"""The checks of `config.model` for a ResNet. Imports neither jax nor flax."""

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.resnet import sizes


def check(model: schema.Model) -> None:
  """Checks the keys of a ResNet against each other.

  Raises:
    UserError: Names the key of `config.model`, its value and a valid one.
  """
  size = sizes.resnet(model)
  if size.width % sizes.NUM_GROUPS:
    above = -(-size.width // sizes.NUM_GROUPS) * sizes.NUM_GROUPS
    raise UserError(
      f"config.model.width = {size.width} does not divide into the"
      f" {sizes.NUM_GROUPS} groups of a ResNet's norms; use {above}."
    )
