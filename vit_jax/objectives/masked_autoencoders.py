"""Declarations that masked autoencoders share, without jax.

`config.objective` has `mask_ratio` and `normalize_pixels`; the parameters have
a `decoder`.
"""

from typing import Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.objectives import mask_checks


def num_visible(config: schema.Config) -> int:
  """Returns the number of patches per image that the encoder sees."""
  side, _ = registry.FAMILIES.get(config.model.name).grid(config.model)
  # As in models_mae.py and fcmae.py: int(L * (1 - mask_ratio)).
  return int(side**2 * (1 - config.objective.mask_ratio))


def check(config: schema.Config) -> None:
  """Checks that some patches are visible and others are not.

  Raises:
    UserError: Names the key of the config, its value and a valid one.
  """
  ratio, side = config.objective.mask_ratio, mask_checks.several(config)
  if num_visible(config) < 1:
    raise UserError(
      f"config.objective.mask_ratio = {ratio:g} leaves none of the {side**2}"
      f" patches visible; use at most {1 - 1 / side**2:.4g}."
    )
  if num_visible(config) == side**2:
    raise UserError(
      f"config.objective.mask_ratio = {ratio:g} masks none of the {side**2}"
      f" patches, so that there is nothing to predict; use at least"
      f" {1 / side**2:.4g}."
    )


def describe(config: schema.Config) -> str:
  """Describes the share of masked patches and the target."""
  target = (
    "normalised pixels" if config.objective.normalize_pixels else "pixels"
  )
  return (
    f"masked autoencoder, {target} of {config.objective.mask_ratio:g} of the"
    " patches"
  )


def exported(params: Any, objective_state: Any) -> dict[str, Any]:
  """Returns the encoder, without the parts that predict patches."""
  del objective_state
  return {name: tree for name, tree in params.items() if name != "decoder"}
