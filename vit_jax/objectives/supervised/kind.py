"""The declaration of supervised classification."""

from typing import TYPE_CHECKING

from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.paper import cost

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  objective = config.objective
  if objective.loss == "sigmoid" and objective.label_smoothing >= 0.5:
    raise UserError(
      f"config.objective.label_smoothing = {objective.label_smoothing:g}"
      " leaves the sigmoid loss nothing to learn: its targets are 1 - s and"
      " s; use a value below 0.5, such as 1e-4."
    )


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Classification by the network of the config."""
  from vit_jax.models import build as models_build
  from vit_jax.objectives.supervised import objective

  del total_steps
  network = models_build.create(config.model, num_classes=facts.num_classes)
  return objective.supervised(network, config)


def forward_flops(config: schema.Config, num_classes: int) -> int:
  """FLOPs of an image's forward pass, two for each multiply-add."""
  return cost.forward_flops(config.model, num_classes=num_classes)


def describe(config: schema.Config) -> dict[str, str]:
  """The loss, label smoothing and mixing."""
  objective = config.objective
  extras = {
    "label smoothing": objective.label_smoothing,
    "mixup": objective.mixup_alpha,
    "CutMix": objective.cutmix_alpha,
  }
  shown = [f"{name} {value:g}" for name, value in extras.items() if value]
  return {"objective": ", ".join([f"{objective.loss} cross-entropy", *shown])}


KIND = ObjectiveKind(
  section=schema.Supervised,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  needs=("image", "label"),
  check=check,
  activation=lambda config: config.objective.loss,
)
