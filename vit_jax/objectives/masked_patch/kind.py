"""The declaration of masked patch prediction."""

from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.objectives import encoder_checks
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.paper import cost

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

COLOURS = 512  # Three bits for each of red, green and blue.
# Target -> (side of a patch in pixels -> outputs of the head per patch).
NUM_OUTPUTS = {
  "mean_colour": lambda patch_size: COLOURS,
  "colours_4x4": lambda patch_size: 16 * COLOURS,
  "pixels": lambda patch_size: 3 * patch_size**2,
}
_TARGETS = {
  "mean_colour": "mean colour",
  "colours_4x4": "colours of 4 x 4 parts",
  "pixels": "pixels",
}


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  encoder_checks.check(config)
  _, patch_size = registry.FAMILIES.get(config.model.name).grid(config.model)
  if config.objective.target == "colours_4x4" and patch_size % 4:
    raise UserError(
      'config.objective.target = "colours_4x4" cuts patches of'
      f" {patch_size} pixels in four; use a patch size that is a multiple"
      ' of 4, or target "mean_colour" or "pixels".'
    )


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds prediction of corrupted patches by the config's network."""
  from vit_jax.objectives.masked_patch import objective

  del facts, total_steps
  return objective.masked_patch(config)


def num_corrupted(config: schema.Config) -> int:
  """Returns the number of corrupted patches per image, at least one."""
  side, _ = registry.FAMILIES.get(config.model.name).grid(config.model)
  return max(1, round(config.objective.mask_rate * side**2))


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add."""
  del num_classes
  family = registry.FAMILIES.get(config.model.name)
  _, patch_size = family.grid(config.model)
  of_patch = NUM_OUTPUTS[config.objective.target](patch_size)
  width = family.size(config.model).width
  read = num_corrupted(config)
  body = cost.trained_flops(config.model, num_classes=None, read_patches=read)
  return body + 2 * width * of_patch * read


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the target and the share of corrupted patches."""
  objective = config.objective
  return {
    "objective": (
      f"masked patch prediction, {_TARGETS[objective.target]} of"
      f" {objective.mask_rate:g} of the patches"
    )
  }


def exported(params: Any, objective_state: Any) -> dict[str, Any]:
  """Returns the network, without the parts that predict patches."""
  del objective_state
  beside = ("mask_token", "patch_head")
  return {name: tree for name, tree in params.items() if name not in beside}


KIND = ObjectiveKind(
  section=schema.MaskedPatch,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  check=check,
  exported=exported,
)
