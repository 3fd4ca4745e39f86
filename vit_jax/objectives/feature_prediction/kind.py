"""The declaration of feature prediction from a frozen network."""

from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.objectives import encoder_checks, feature_teacher, mask_checks
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.paper import cost

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

# Parameters in addition to the network's.
MASK_TOKEN, HEAD = "mask_token", "patch_head"


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  encoder_checks.check_patch_learning(config)
  mask_checks.check(config)
  feature_teacher.check(config)


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds prediction of a teacher's features by the config's network.

  Raises:
    UserError: There is no teacher, or it does not have the student's patches.
  """
  from vit_jax.objectives.feature_prediction import objective

  del facts, total_steps
  return objective.feature_prediction(config, feature_teacher.read(config))


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add.

  A training step counts as three forward passes, but only one for the teacher.
  """
  del num_classes
  flops = cost.trained_flops(
    config.model,
    num_classes=None,
    read_patches=config.objective.masked_patches,
  )
  wanted, taught = feature_teacher.cost(config) or (0, 0)
  width = registry.FAMILIES.get(config.model.name).size(config.model).width
  flops += 2 * width * wanted * config.objective.masked_patches
  return flops + taught // 3


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the teacher and the number of masked patches."""
  objective = config.objective
  return {
    "objective": (
      f"prediction of a teacher's features of {objective.masked_patches}"
      " masked patches"
    ),
    **feature_teacher.describe(config),
  }


def exported(params: Any, objective_state: Any) -> dict[str, Any]:
  """Returns the network, without the parts that predict features."""
  del objective_state
  beside = (MASK_TOKEN, HEAD)
  return {name: tree for name, tree in params.items() if name not in beside}


KIND = ObjectiveKind(
  section=schema.FeaturePrediction,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  check=check,
  check_files=feature_teacher.check_files,
  exported=exported,
  # The 2 x 2 patches of a small network.
  small={"teacher": "random", "masked_patches": 2, "smallest_block": 1},
)
