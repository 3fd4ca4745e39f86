"""The declaration of masked autoencoders."""

from typing import TYPE_CHECKING

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.models.layers import cudnn_limits
from vit_jax.objectives import encoder_checks, masked_autoencoders
from vit_jax.objectives.kind import ObjectiveKind

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

MLP_RATIO = 4


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  if config.model.name == "convnext":
    raise UserError(
      'config.objective.name = "mae" encodes the patches of a "vit"; for'
      ' config.model.name = "convnext" use "fcmae".'
    )
  encoder_checks.check_patch_learning(config)
  model, objective = config.model, config.objective
  if model.pos_embedding_at != "stem" or model.pos_embedding == "relative":
    raise UserError(
      f"config.model.pos_embedding = {model.pos_embedding!r} at"
      f" {model.pos_embedding_at!r} gives positions to all patches in every"
      ' layer, but the encoder of objective "mae" sees a part of them; use'
      " 'learned_1d' at 'stem'."
    )
  if model.rope:
    raise UserError(
      "config.model.rope = True turns patches in every layer by their places,"
      ' but the encoder of objective "mae" sees a part of them, in any order;'
      " leave it at False."
    )
  masked_autoencoders.check(config)
  width, heads = objective.decoder_width, objective.decoder_num_heads
  if width % heads or width % 4:
    raise UserError(
      f"config.objective.decoder_width = {width} must be a multiple of 4 and of"
      f" config.objective.decoder_num_heads = {heads}."
    )
  if model.attention == "cudnn" and not cudnn_limits.takes(width // heads):
    raise UserError(
      "config.model.attention = 'cudnn' takes heads of at most"
      f" {cudnn_limits.MAX_HEAD_SIZE} units, a multiple of 8, and those of the"
      f" decoder have {width // heads} (config.objective.decoder_num_heads ="
      f" {heads}); change that, or use config.model.attention='xla'."
    )


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds a masked autoencoder around the network of the config."""
  from vit_jax.objectives.mae import objective

  del facts, total_steps
  return objective.mae(config)


def decoder_model(config: schema.Config) -> schema.Model:
  """Returns the decoder's layers as a section `config.model`."""
  objective = config.objective
  return config.model.updated(
    width=objective.decoder_width,
    depth=objective.decoder_depth,
    num_heads=objective.decoder_num_heads,
    mlp_dim=MLP_RATIO * objective.decoder_width,
    mlp="gelu",
  )


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add.

  The encoder sees only the visible patches; with a convolutional stem, this
  applies to the layers after it.
  """
  del num_classes
  model = config.model
  family = registry.FAMILIES.get(model.name)
  side, patch_size = family.grid(model)
  prefix = family.num_prefix_tokens(model)
  size, smaller = family.size(model), config.objective.decoder_width
  width = size.width
  visible = masked_autoencoders.num_visible(config)
  seen, every = prefix + visible, prefix + side**2
  embedded = visible if size.stem_blocks is None else side**2
  pixels = 3 * patch_size**2
  return (
    2 * embedded * pixels * width
    + family.layer_flops(model, seen)
    + 2 * seen * width * smaller
    + family.layer_flops(decoder_model(config), every)
    + 2 * side**2 * smaller * pixels
  )


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the share of masked patches, the target and the decoder."""
  objective = config.objective
  layers = "layer" if objective.decoder_depth == 1 else "layers"
  return {
    "objective": masked_autoencoders.describe(config),
    "decoder": (
      f"{objective.decoder_depth} {layers} of width {objective.decoder_width}"
    ),
  }


KIND = ObjectiveKind(
  section=schema.MAE,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  check=check,
  exported=masked_autoencoders.exported,
  beside=("decoder",),
  small={"decoder_width": 32, "decoder_depth": 1, "decoder_num_heads": 2},
)
