"""The declaration of DINO."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import scalars, schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.objectives import encoder_checks
from vit_jax.objectives.dino import views
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.paper import cost

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

# Maximum number of prototypes compared at a time; more are a multiple of the
# second number.
CHUNK, STEP = 4096, 1024
# Minimum temperature of a teacher. Published ones have 0.04 or more.
_COLDEST = 0.01
_logger = logging.getLogger(__name__)
_CROPS = (views.GLOBAL, views.LOCAL)
# Minimum images per micro-batch for two directions to be meaningful.
_IMAGES_FOR_RANK = 4
_REMEDIES = (
  "Usual remedies: a lower objective.teacher_temperature or a longer warm-up of"
  " it, a teacher_momentum nearer to 1, fewer objective.prototypes on small"
  " data, a lower schedule.base_lr."
)


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  objective = config.objective
  views.check(config)
  encoder_checks.check_no_classifier(config)
  if max(scalars.parse(objective.teacher_momentum).values) > 1:
    raise UserError(
      f"config.objective.teacher_momentum = {objective.teacher_momentum!r} is"
      " above 1 at times; it is the share of the teacher that stays: use 1 or"
      " less, such as 'cosine(0.996, 1.0)'."
    )
  if min(scalars.parse(objective.teacher_temperature).values) < _COLDEST:
    raise UserError(
      "config.objective.teacher_temperature ="
      f" {objective.teacher_temperature!r} is below {_COLDEST} at times, where"
      " float32 does not hold the teacher's probabilities; use more, such as"
      " 0.04."
    )
  number = objective.prototypes
  if number > CHUNK and number % STEP:
    raise UserError(
      f"config.objective.prototypes = {number} cannot be compared in equal"
      f" chunks; use a multiple of {STEP}, such as"
      f" {max(STEP, round(number / STEP) * STEP)}."
    )
  # Axes other than fsdp do not split the prototypes; 'auto' splits another
  # dimension of them if it must.
  devices = config.mesh.fsdp
  if devices != "auto" and devices > 1 and number % devices:
    step = math.lcm(devices, STEP if number > CHUNK else 1)
    raise UserError(
      f"config.objective.prototypes = {number} does not divide over the"
      f" config.mesh.fsdp = {devices} devices that share them; use"
      f" {max(1, round(number / step)) * step}, or another config.mesh.fsdp."
    )


def warn_of_average(config: schema.Config) -> None:
  """Warns of an average of the student that is not used."""
  if config.ema_decay is not None:
    _logger.warning(
      "config.ema_decay = %g costs memory without effect: the teacher, which is"
      " an average already, is evaluated and exported. New runs should leave it"
      " None and set config.objective.teacher_momentum.",
      config.ema_decay,
    )


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds self-distillation of the network of the config."""
  from vit_jax.objectives.dino import objective

  warn_of_average(config)
  return objective.dino(config, facts, total_steps)


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add.

  A training step counts as three forward passes, but only one for the teacher,
  which sees the global crops.
  """
  del num_classes
  return student_flops(config) + teacher_flops(config) // 3


def teacher_flops(
  config: schema.Config, of_class: Sequence[str] = _CROPS
) -> int:
  """Counts FLOPs of an image's global crops in network and head.

  Args:
    config: The experiment.
    of_class: Kinds of crops for which only the class token is read.
  """
  of_head = head_flops(
    config.objective, _width(config), config.objective.bottleneck
  )
  large = views.count(config, views.GLOBAL)
  return large * (_flops(config, views.GLOBAL, of_class) + of_head)


def student_flops(
  config: schema.Config, of_class: Sequence[str] = _CROPS
) -> int:
  """Counts FLOPs of all of an image's crops in network and head.

  Branches that stochastic depth skips are not counted.

  Args: As for `teacher_flops`.
  """
  of_head = head_flops(
    config.objective, _width(config), config.objective.bottleneck
  )
  found = 0
  for kind in _CROPS:
    if views.names(config, kind):
      model = config.model.updated(image_size=views.side(config, kind))
      family = registry.FAMILIES.get(model.name)
      unread = family.unread_flops(model) if kind in of_class else 0
      of_network = _flops(config, kind, of_class)
      of_network -= family.skipped_flops(model, unread)
      found += views.count(config, kind) * (of_network + of_head)
  return found


def _flops(config: schema.Config, kind: str, of_class: Sequence[str]) -> int:
  model = config.model.updated(image_size=views.side(config, kind))
  counted = cost.computed_flops if kind in of_class else cost.forward_flops
  return counted(model, num_classes=None)


def _width(config: schema.Config) -> int:
  """Returns the length of the network's features."""
  num_params = registry.FAMILIES.get(config.model.name).num_params
  # A linear head of one class has a weight for each feature and a bias.
  return num_params(config.model, 1) - num_params(config.model, None) - 1


def head_flops(objective: schema.DINO, width: int, bottleneck: int) -> int:
  """Counts FLOPs of a head for one token, including the prototypes."""
  hidden = objective.hidden_width
  return 2 * (
    width * hidden
    + hidden**2
    + hidden * bottleneck
    + bottleneck * objective.prototypes
  )


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the prototypes and crops, and the teacher's update."""
  objective = config.objective
  crops = [
    f"{views.count(config, kind)} of {views.side(config, kind)} px"
    for kind in (views.GLOBAL, views.LOCAL)
    if views.names(config, kind)
  ]
  how = {
    "mean": "centred by its mean",
    "sinkhorn": "balanced by Sinkhorn's iterations",
  }
  return {
    "objective": f"DINO, {objective.prototypes} prototypes",
    "crops of an image": " and ".join(crops),
    "teacher": (
      f"average of the student with momentum {objective.teacher_momentum},"
      f" temperature {objective.teacher_temperature},"
      f" {how[objective.centering]}"
    ),
  }


def whole(params: Any, objective_state: Any) -> Any:
  """Returns the teacher: network and head."""
  del params
  return objective_state["teacher"]


def exported(params: Any, objective_state: Any) -> dict[str, Any]:
  """Returns the teacher's network, without its head."""
  teacher = whole(params, objective_state)
  return {name: tree for name, tree in teacher.items() if name != "dino_head"}


def carried(objective_state: Any) -> dict[str, Any]:
  """Returns the centre of the teacher's similarities."""
  return {"center": objective_state["center"]}


def warning(config: schema.Config, values: Mapping[str, float]) -> str | None:
  """Returns a sentence about a collapse that the metrics of a step show."""
  number = config.objective.prototypes
  what = None
  for prefix, things, thing in (
    ("", "images", "image"),
    ("patch_", "patches", "patch"),
  ):
    used = values.get(f"{prefix}prototypes_used")
    if used is None or what is not None:
      continue
    entropy = values[f"{prefix}teacher_entropy"]
    if used * number < 1.5 and number > 2:
      what = (
        f"The teacher gives all {things} to the same prototype"
        f" ({prefix}prototypes_used {used:.2g})."
      )
    elif entropy > 0.999 * math.log(number):
      what = (
        f"The teacher gives every {thing} to all prototypes alike"
        f" ({prefix}teacher_entropy {entropy:.4g} of at most"
        f" {math.log(number):.4g})."
      )
  # The features of few images always lie close to a line.
  images = config.train.batch_size // config.train.accumulate_steps
  has_many = images >= _IMAGES_FOR_RANK
  if what is None and has_many and values["feature_rank"] < 2:
    what = (
      "The teacher's features of all images lie on a line (feature_rank"
      f" {values['feature_rank']:.3g})."
    )
  return what and f"{what} This is a collapse, if it lasts. {_REMEDIES}"


KIND = ObjectiveKind(
  section=schema.DINO,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  needs=(),
  check=check,
  decomposes=lambda config: config.objective.centering == "mean",
  exported=exported,
  whole=whole,
  carried=carried,
  small={"prototypes": 64, "hidden_width": 32, "bottleneck": 16},
  warning=warning,
)
