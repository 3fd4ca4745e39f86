"""The declaration of VQ-KD."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.objectives import encoder_checks, feature_teacher
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.paper import cost
from vit_jax.weights.spellings.vit.vqkd import QUANTIZER

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

DECODER = "decoder"  # Parameters in addition to the network's and `QUANTIZER`.
# Share of the codes that a batch can use below which it uses few.
_FEW = 0.05


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  encoder_checks.check_patch_learning(config)
  feature_teacher.check(config)


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds VQ-KD with the config's network as the encoder.

  Raises:
    UserError: There is no teacher, or it does not have the encoder's patches.
  """
  from vit_jax.objectives.vqkd import objective

  del facts, total_steps
  return objective.quantized_distillation(config, feature_teacher.read(config))


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add.

  A training step counts as three forward passes, but only one for the teacher
  and for the distances from the codes.
  """
  del num_classes
  model, objective = config.model, config.objective
  family = registry.FAMILIES.get(model.name)
  side, _ = family.grid(model)
  width = family.size(model).width
  patches, codes = side**2, objective.code_width
  decoder = model.updated(depth=objective.decoder_depth)
  flops = cost.trained_flops(model, num_classes=None, read_patches=patches)
  flops += family.layer_flops(decoder, patches + 1)
  wanted, taught = feature_teacher.cost(config) or (width, 0)
  dense = width * (width + codes) + codes * width + width * (width + wanted)
  distances = objective.tokens * codes
  return flops + 2 * patches * dense + (taught + 2 * patches * distances) // 3


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the codes and the teacher."""
  objective = config.objective
  return {
    "objective": (
      f"VQ-KD, {objective.tokens} codes of width {objective.code_width}, a"
      f" decoder of {objective.decoder_depth} layers"
    ),
    **feature_teacher.describe(config),
  }


def exported(params: Any, objective_state: Any) -> dict[str, Any]:
  """Returns the encoder."""
  del objective_state
  beside = (DECODER, QUANTIZER)
  return {name: tree for name, tree in params.items() if name not in beside}


def carried(objective_state: Any) -> dict[str, Any]:
  """Returns the codes, with which a run also continues from another."""
  return dict(objective_state)


def warning(config: schema.Config, values: Mapping[str, float]) -> str | None:
  """Warns of codes that are hardly used."""
  used, count = values.get("codes_used"), config.objective.tokens
  side, _ = registry.FAMILIES.get(config.model.name).grid(config.model)
  most = min(1.0, config.train.batch_size * side**2 / count)
  if used is None or used >= _FEW * most:
    return None
  return (
    f"{used * count:.0f} of the {count} codes are used in a batch, so few"
    " tokens will differ; lower config.schedule.base_lr, or use fewer"
    " config.objective.tokens."
  )


KIND = ObjectiveKind(
  section=schema.VQKD,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  check=check,
  check_files=feature_teacher.check_files,
  # The codes start from the first batch as a whole.
  decomposes=lambda config: False,
  exported=exported,
  carried=carried,
  warning=warning,
  small={
    "teacher": "random",
    "tokens": 16,
    "code_width": 8,
    "decoder_depth": 1,
  },
)
