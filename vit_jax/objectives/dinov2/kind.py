"""The declaration of DINOv2."""

from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.objectives import encoder_checks, frozen_path
from vit_jax.objectives.dino import kind as dino_kind
from vit_jax.objectives.dino import views
from vit_jax.objectives.dinov2 import frozen_checks
from vit_jax.objectives.dinov2 import plan as plans
from vit_jax.objectives.kind import ObjectiveKind

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

# Parameters in addition to the network's.
BESIDE = ("dino_head", "ibot_head", "mask_token")
# Minimum number of patches in a masked rectangle.
_SMALLEST = 4


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  encoder_checks.check(config)
  dino_kind.check(config)
  model, objective = config.model, config.objective
  if model.pool != "cls" or model.norm_after_pool:
    raise UserError(
      f"config.model.pool = {model.pool!r} with norm_after_pool ="
      f" {model.norm_after_pool} has no normalised class token and patches,"
      ' which objective "dinov2" compares; use "cls" and False.'
    )
  if objective.unit_prototypes and not objective.weight_norm:
    raise UserError(
      "config.objective.unit_prototypes = True fixes the lengths of prototypes,"
      " which weight_norm = False does not separate from their directions; set"
      " one of the two the other way."
    )
  low, high = objective.mask_ratio
  if low > high:
    raise UserError(
      f"config.objective.mask_ratio = {(low, high)} is a range that begins"
      f" after its end; use {(high, low)}."
    )
  plan = plans.of(config)
  masks = objective.mask_probability > 0
  if masks and int(high * plan.num_patches) < _SMALLEST:
    raise UserError(
      f"config.objective.mask_ratio = {(low, high)} masks at most"
      f" {int(high * plan.num_patches)} of {plan.num_patches} patches, but"
      f" masks are rectangles of {_SMALLEST} or more, which cannot be placed;"
      " raise the ratio, or use smaller patches or larger global crops."
    )
  if plan.group < 2:
    raise UserError(
      f"config.objective.group = {objective.group} and config.train.batch_size"
      f" = {config.train.batch_size} make groups of one image, which has no"
      " neighbour; use numbers with a common divisor, such as 32 and 1024."
    )
  if objective.teacher is not None:
    frozen_path.check(frozen_checks.KEY, objective.teacher)
    frozen_checks.check_run(config)


def check_files(config: schema.Config) -> None:
  """Raises UserError for a teacher that cannot be learned from."""
  if config.objective.teacher is not None:
    from vit_jax.objectives.dinov2 import frozen

    with frozen_path.told(frozen_checks.KEY):
      frozen.config_of(config)


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds self-distillation of images and patches for the config's network."""
  from vit_jax.objectives.dinov2 import objective

  dino_kind.warn_of_average(config)
  return objective.dinov2(config, facts, total_steps)


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add.

  As for DINO, with the patch head of student and teacher.
  """
  del num_classes
  teacher = config
  if config.objective.teacher is not None:
    from vit_jax.objectives.dinov2 import frozen

    teacher = frozen.config_of(config)
  # The patches of global crops are compared as well.
  of_student = dino_kind.student_flops(config, (views.LOCAL,))
  of_teacher = dino_kind.teacher_flops(teacher, ())
  of_student += _patch_flops(config)
  of_teacher += _patch_flops(teacher)
  return of_student + of_teacher // 3


def _patch_flops(config: schema.Config) -> int:
  """Counts FLOPs of the head on the compared patches of an image."""
  plan, objective = plans.of(config), config.objective
  width = registry.FAMILIES.get(config.model.name).size(config.model).width
  of_patch = dino_kind.head_flops(
    objective,
    width,
    objective.patch_bottleneck
    if objective.separate_patch_head
    else objective.bottleneck,
  )
  if objective.patches == "all":
    return of_patch * plan.crops_per_image * plan.num_patches
  return of_patch * plan.bound // plan.group


def describe(config: schema.Config) -> dict[str, str]:
  """Describes DINO, the masked patches and the spreading."""
  objective = config.objective
  low, high = objective.mask_ratio
  found = dino_kind.describe(config)
  if objective.teacher is not None:
    found["teacher"] = (
      f"{objective.teacher}, frozen, temperature"
      f" {objective.teacher_temperature}; an average of the student with"
      f" momentum {objective.teacher_momentum} is kept"
    )
  return {
    "objective": f"DINOv2, {objective.prototypes} prototypes",
    **{name: text for name, text in found.items() if name != "objective"},
    "masked patches": (
      f"{low:g} to {high:g} of {objective.mask_probability:g} of the global"
      f" crops, weight {objective.patch_weight:g}"
      + (", all patches are compared" if objective.patches == "all" else "")
    ),
    "KoLeo": f"weight {objective.koleo_weight:g}",
  }


def whole(params: Any, objective_state: Any) -> Any:
  """Returns the student's average, network and heads, maybe the teacher."""
  del params
  name = "average" if "average" in objective_state else "teacher"
  return objective_state[name]


def exported(params: Any, objective_state: Any) -> dict[str, Any]:
  """Returns the network of the average, without heads and mask token."""
  found = whole(params, objective_state)
  return {name: tree for name, tree in found.items() if name not in BESIDE}


def carried(objective_state: Any) -> dict[str, Any]:
  """Returns the centres of an averaged teacher; a frozen one keeps its own."""
  if "average" in objective_state:
    return {}
  names = ("center", "patch_center")
  return {name: objective_state[name] for name in names}


KIND = ObjectiveKind(
  section=schema.DINOv2,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  needs=(),
  check=check,
  check_files=check_files,
  decomposes=lambda config: False,
  exported=exported,
  whole=whole,
  carried=carried,
  small=dino_kind.KIND.small | {"patch_bottleneck": 16},
  warning=dino_kind.warning,
)
