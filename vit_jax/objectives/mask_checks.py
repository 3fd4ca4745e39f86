"""The check that masks of rectangles can be placed, without jax."""

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError


def check(config: schema.Config, count: int, smallest: int) -> None:
  """Checks that `block_masks.draw` finds rectangles that fit.

  Args:
    config: The experiment, whose objective has `mask_ratio` and
      `smallest_mask`.
    count: Patches of an image to mask.
    smallest: Least area of a rectangle, in patches.

  Raises:
    UserError: Names the key of the config, its value and a valid one.
  """
  side, _ = registry.FAMILIES.get(config.model.name).grid(config.model)
  # A rectangle leaves a row and a column, and covers half of the image at most.
  most = min((side - 1) ** 2, side**2 // 2)
  if smallest > most:
    hint = f"use {most} or less" if most else "use smaller patches"
    raise UserError(
      f"config.objective.smallest_mask = {smallest} makes masks of rectangles"
      f" of {smallest} patches or more, but of {side} x {side} patches they"
      f" cover {most} at most; {hint}."
    )
  if count < smallest:
    raise UserError(
      f"config.objective.mask_ratio = {config.objective.mask_ratio:g} masks"
      f" {count} of {side**2} patches, but masks are rectangles of {smallest}"
      " or more, which cannot be placed; raise it, or lower"
      " config.objective.smallest_mask."
    )
