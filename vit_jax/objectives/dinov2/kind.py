"""The declaration of DINOv2."""

from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.objectives import encoder_checks
from vit_jax.objectives.dino import kind as dino_kind
from vit_jax.objectives.dinov2 import plan as plans
from vit_jax.objectives.kind import ObjectiveKind

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

# Parameters beside those of the network.
BESIDE = ("dino_head", "ibot_head", "mask_token")
# Least patches of a masked rectangle.
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
  low, high = objective.mask_ratio
  if low > high:
    raise UserError(
      f"config.objective.mask_ratio = {(low, high)} is a range that begins"
      f" after its end; use {(high, low)}."
    )
  plan = plans.of(config)
  if int(high * plan.num_patches) < _SMALLEST:
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


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Self-distillation of images and patches by the network of the config."""
  from vit_jax.objectives.dinov2 import objective

  return objective.dinov2(config, facts, total_steps)


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """FLOPs of an image's forward pass, two for each multiply-add.

  As DINO's, with the head on masked patches by student and teacher.
  """
  plan, objective = plans.of(config), config.objective
  width = registry.FAMILIES.get(config.model.name).size(config.model).width
  of_patch = dino_kind.head_flops(
    objective,
    width,
    objective.patch_bottleneck
    if objective.separate_patch_head
    else objective.bottleneck,
  )
  of_patches = of_patch * plan.bound // plan.group
  whole = dino_kind.forward_flops(config, num_classes)
  return whole + of_patches + of_patches // 3


def describe(config: schema.Config) -> dict[str, str]:
  """DINO's description, the masked patches and the spreading."""
  objective = config.objective
  low, high = objective.mask_ratio
  found = dino_kind.describe(config)
  return {
    "objective": f"DINOv2, {objective.prototypes} prototypes",
    **{name: text for name, text in found.items() if name != "objective"},
    "masked patches": (
      f"{low:g} to {high:g} of {objective.mask_probability:g} of the global"
      f" crops, weight {objective.patch_weight:g}"
    ),
    "KoLeo": f"weight {objective.koleo_weight:g}",
  }


def exported(params: Any, objective_state: Any) -> dict[str, Any]:
  """The teacher's network, without what stands beside it."""
  del params
  teacher = objective_state["teacher"]
  return {name: tree for name, tree in teacher.items() if name not in BESIDE}


KIND = ObjectiveKind(
  section=schema.DINOv2,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  needs=(),
  check=check,
  decomposes=lambda config: False,
  exported=exported,
  small=dino_kind.KIND.small | {"patch_bottleneck": 16, "mask_ratio": (0.5, 1)},
  warning=dino_kind.warning,
)
