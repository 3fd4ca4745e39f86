"""The declaration of fully convolutional masked autoencoders."""

from typing import TYPE_CHECKING

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.models.convnext import cost, sizes
from vit_jax.objectives import encoder_checks, masked_autoencoders
from vit_jax.objectives.kind import ObjectiveKind

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  if config.model.name != "convnext":
    raise UserError(
      f"config.model.name = {config.model.name!r}, but the encoder of objective"
      ' "fcmae" is a "convnext"; use objective "mae" for a "vit".'
    )
  encoder_checks.check_no_classifier(config)
  masked_autoencoders.check(config)


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds a masked autoencoder around the network of the config."""
  from vit_jax.objectives.fcmae import objective

  del facts, total_steps
  return objective.fcmae(config)


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add.

  The encoder's are those of the visible patches.
  """
  del num_classes
  model, objective = config.model, config.objective
  side, stride = registry.FAMILIES.get(model.name).grid(model)
  width, places = objective.decoder_width, side**2
  visible = masked_autoencoders.num_visible(config)
  channels = sizes.convnext(model).widths[-1]
  block = sizes.KERNEL**2 * width + 2 * sizes.EXPANSION * width**2
  decoder = (
    visible * channels * width
    + objective.decoder_depth * places * block
    + places * width * 3 * stride**2
  )
  patch = cost.forward_flops(model.updated(image_size=stride), None)
  return visible * patch + 2 * decoder


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the share of masked patches, the target and the decoder."""
  objective = config.objective
  blocks = "block" if objective.decoder_depth == 1 else "blocks"
  return {
    "objective": f"fully convolutional {masked_autoencoders.describe(config)}",
    "decoder": (
      f"{objective.decoder_depth} {blocks} of width {objective.decoder_width}"
    ),
  }


KIND = ObjectiveKind(
  section=schema.FCMAE,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  check=check,
  exported=masked_autoencoders.exported,
  beside=("decoder",),
  small={"decoder_width": 32},
)
