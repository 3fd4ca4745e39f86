"""Checks that masks of patches can be placed, without jax."""

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError


def several(config: schema.Config) -> int:
  """Returns the patches along a side of an image, if there are several.

  Raises:
    UserError: An image is a single patch.
  """
  model, objective = config.model, config.objective.name
  side, patch_size = registry.FAMILIES.get(model.name).grid(model)
  if side < 2:
    raise UserError(
      f"config.model.image_size = {model.image_size} is a single patch of"
      f' {patch_size} pixels, but objective "{objective}" masks a part of'
      f" several; use {2 * patch_size} or more, or smaller patches."
    )
  return side


def check(config: schema.Config) -> None:
  """Checks that `block_masks.draw` finds rectangles that fit.

  Args:
    config: The experiment, whose objective has `masked_patches` and
      `smallest_block`.

  Raises:
    UserError: Names the key of the config, its value and a valid one.
  """
  objective = config.objective
  side = several(config)
  count, least = objective.masked_patches, objective.smallest_block
  if count >= side**2:
    raise UserError(
      f"config.objective.masked_patches = {count} leaves none of the {side**2}"
      f" patches of an image to see; use {max(1, int(0.4 * side**2))} or so,"
      f" at most {side**2 - 1}."
    )
  # A rectangle is smaller than the image in both directions, and than half of
  # it.
  most = min(count, (side - 1) ** 2, side**2 // 2)
  if least > most:
    raise UserError(
      f"config.objective.smallest_block = {least} patches cannot be placed:"
      f" images have {side} x {side}, of which {count} are masked in rectangles"
      f" of fewer rows and columns; use at most {most}."
    )
