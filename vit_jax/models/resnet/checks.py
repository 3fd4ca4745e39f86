"""The checks of `config.model` for a ResNet. Imports neither jax nor flax."""

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.resnet import sizes

# Keys that a ResNet takes, and those that only say how tokens would be loaded.
_KEYS = {
  "name",
  "variant",
  "width",
  "blocks",
  "num_classes",
  "image_size",
  "head_bias_init",
  "dtype",
  "remat",
  "normalize",
  "standardization",
  "pos_embedding_resize",
}


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
  for key, field in schema.Model.model_fields.items():
    value = getattr(model, key)
    if key in _KEYS or value == field.default:
      continue
    if key == "pool" and value == "gap":  # What it does anyway.
      continue
    raise UserError(
      f"config.model.{key} = {value!r} is for config.model.name = 'vit'; a"
      f" 'resnet' has nothing to do with it, so leave it at {field.default!r}."
    )
