"""The declaration of feature prediction from a frozen network."""

from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.objectives import encoder_checks, frozen_path, mask_checks
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.paper import cost

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

TEACHER = "config.objective.teacher"
# Parameters in addition to the network's.
MASK_TOKEN, HEAD = "mask_token", "patch_head"


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  encoder_checks.check(config)
  encoder_checks.check_start(config)
  model, objective = config.model, config.objective
  if model.norm_after_pool:
    raise UserError(
      "config.model.norm_after_pool = True has no norm of the tokens that"
      ' objective "feature_prediction" predicts from; set it for fine-tuning'
      " alone."
    )
  mask_checks.check(config)
  if objective.teacher is not None:
    frozen_path.check_patches(TEACHER, objective.teacher)


def check_files(config: schema.Config) -> None:
  """Raises UserError for a teacher that cannot be learned from."""
  path = config.objective.teacher
  if path is None or frozen_path.RANDOM.fullmatch(path):
    return
  from vit_jax.objectives import frozen_network

  frozen_network.check_patches(TEACHER, path, config.model)


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds prediction of a teacher's features by the config's network.

  Raises:
    UserError: There is no teacher, or it does not have the student's patches.
  """
  from vit_jax.objectives import frozen_network
  from vit_jax.objectives.feature_prediction import objective

  del facts, total_steps
  path = config.objective.teacher
  if path is None:
    raise UserError(
      f'{TEACHER} is not set, and objective "feature_prediction" learns from'
      " the features of a teacher; name a checkpoint of any form, or 'random'"
      " for a network with random parameters, to try things out."
    )
  teacher = frozen_network.read_patches(
    TEACHER, path, config.model, projected=_is_projected(config)
  )
  return objective.feature_prediction(config, teacher)


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
  path = config.objective.teacher
  if path is None:
    return flops
  from vit_jax.objectives import frozen_network

  wanted, taught = frozen_network.patches_cost(
    TEACHER, path, config.model, projected=_is_projected(config)
  )
  width = registry.FAMILIES.get(config.model.name).size(config.model).width
  flops += 2 * width * wanted * config.objective.masked_patches
  return flops + taught // 3


def _is_projected(config: schema.Config) -> bool:
  return config.objective.teacher_features == "projected"


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the teacher and the number of masked patches."""
  objective = config.objective
  return {
    "objective": (
      f"prediction of a teacher's features of {objective.masked_patches}"
      " masked patches"
    ),
    "teacher": objective.teacher or "none yet",
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
  check_files=check_files,
  exported=exported,
  # The 2 x 2 patches of a small network.
  small={"teacher": "random", "masked_patches": 2, "smallest_block": 1},
)
