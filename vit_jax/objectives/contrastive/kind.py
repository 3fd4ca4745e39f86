"""The declaration of contrastive learning of images and texts."""

from typing import TYPE_CHECKING

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data import spec
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.models.two_towers.shapes import IMAGE, image_tower
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.paper import cost

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

# Image ops without randomness.
_SAME_EVERY_TIME = ("decode", "resize", "resize_small", "central_crop")


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  model = config.model
  if not registry.FAMILIES.get(model.name).has_text:
    raise UserError(
      f"config.model.name = {model.name!r} has no text tower; objective"
      ' "contrastive" needs "two_towers".'
    )
  loss = loss_of(config)
  if (loss == "sigmoid") != (model.bias_init is not None):
    remedy = "learns a bias; use -10"
    if loss == "softmax":
      remedy = "takes no bias, which changes nothing there; use None"
    raise UserError(
      f"config.model.bias_init = {model.bias_init}, but config.objective.loss ="
      f" {loss!r} {remedy}."
    )
  if config.objective.cache_frozen is not None:
    _check_cache(config)
  for name, entry in config.evals.items():
    if entry.type == "classification":
      raise UserError(
        f'config.evals.{name} is of type "classification", but objective'
        ' "contrastive" trains no classifier; use "zeroshot" or "fewshot".'
      )


def loss_of(config: schema.Config) -> str:
  """Returns the loss of the config, else of the model: sigmoid or softmax."""
  by_model = "softmax" if config.model.bias_init is None else "sigmoid"
  return config.objective.loss or by_model


def _check_cache(config: schema.Config) -> None:
  """Raises UserError if an image is not the same in every epoch."""
  cache = f"config.objective.cache_frozen = {config.objective.cache_frozen!r}"
  train = config.train
  preprocess = spec.parse(train.preprocess, config.model.image_size)
  ops = (*preprocess.of_kind("image"), *preprocess.of_kind("device"))
  for call in ops:
    if call.name not in _SAME_EVERY_TIME:
      raise UserError(
        f"{cache} keeps one embedding of an image, but {call.where} makes it"
        " another every time; leave one of them out. Ops that do not:"
        f" {', '.join(_SAME_EVERY_TIME)}."
      )
  if train.max_bad_examples:
    raise UserError(
      f"{cache} embeds every image, and config.train.max_bad_examples ="
      f" {train.max_bad_examples} lets some be damaged; set it to 0 and name"
      " the damaged ones in config.train.exclude."
    )


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds training of the config's two towers on pairs."""
  from vit_jax.objectives.contrastive import objective

  del facts, total_steps
  return objective.contrastive(config)


def forward_flops(config: schema.Config, num_classes: int | None) -> int:
  """Counts FLOPs of a pair: both towers, and one image with a batch's texts.

  A training step counts as three forward passes, but only one for a frozen
  image tower, or none if its outputs are stored.
  """
  from vit_jax.optim import multipliers

  del num_classes
  model = config.model
  family = registry.FAMILIES.get(model.name)
  flops = cost.computed_flops(model, num_classes=None)
  paths = [p for p in family.shapes(model, None) if p.startswith(IMAGE)]
  if multipliers.freezes(config.optimizer, paths):
    tower = image_tower(model)
    flops -= cost.computed_flops(tower, num_classes=None)
    if config.objective.cache_frozen is None:
      # A frozen tower computes all tokens of its last layer.
      flops += cost.forward_flops(tower, num_classes=None) // 3
  return flops + (
    2 * config.train.batch_size * family.size(model).embedding_size
  )


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the loss, and the number of texts compared with an image."""
  return {
    "objective": (
      f"contrastive, {loss_of(config)} loss over pairs of"
      f" {config.train.batch_size} images and texts"
    )
  }


KIND = ObjectiveKind(
  section=schema.Contrastive,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  needs=("image", "text"),
  check=check,
)
