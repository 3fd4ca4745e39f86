"""Checks shared by all objectives that train tokens without labels."""

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError

# Flags with which a file without a norm of the patches starts a new one.
_NEW_NORM = (
  "--config.allow_change=model.norm_after_pool"
  " --config.init_without=\"('Transformer/encoder_norm/.*','fc_norm/.*')\""
)


def check(config: schema.Config) -> None:
  """Checks that the network has patches and no untrained head.

  Raises:
    UserError: Names the key of the config, its value and a valid one.
  """
  model, objective = config.model, config.objective.name
  family = registry.FAMILIES.get(model.name)
  if not family.has_tokens:
    raise UserError(
      f"config.model.name = {model.name!r} has no patches; objective"
      f' "{objective}" needs "vit".'
    )
  if model.pool == "map":
    raise UserError(
      'config.model.pool = "map" learns how to pool, which objective'
      f' "{objective}" does not train; use "cls" or "gap".'
    )
  if model.representation_size is not None:
    raise UserError(
      f"config.model.representation_size = {model.representation_size!r} is of"
      f' a head that objective "{objective}" does not have; leave it unset.'
    )
  side, patch_size = family.grid(model)
  covered = side * patch_size
  if covered > model.image_size:
    raise UserError(
      f"config.model.image_size = {model.image_size} is less than the"
      f" {covered} pixels that the patches of {model.variant!r} stand for;"
      f' objective "{objective}" predicts their pixels: use {covered}.'
    )
  check_no_classifier(config)


def check_patch_learning(config: schema.Config) -> None:
  """Checks a network whose normalised patches an objective learns from.

  It starts with the initial values of the objective's released code.

  Raises:
    UserError: As for `check`; there is no norm of the patches, or other initial
      values are wanted.
  """
  check(config)
  if config.model.norm_after_pool:
    raise UserError(
      "config.model.norm_after_pool = True has no norm of the patches, from"
      f' which objective "{config.objective.name}" learns: it is for'
      " fine-tuning. Leave it False; to start from a file without that norm,"
      f" start the norm anew by {_NEW_NORM}."
    )
  weight_init = getattr(config.model, "weight_init", "vit")
  if weight_init != "vit":
    raise UserError(
      f"config.model.weight_init = {weight_init!r}, but objective"
      f' "{config.objective.name}" starts its network as its own released code'
      " does; leave it unset."
    )


def check_no_classifier(config: schema.Config) -> None:
  """Checks that no evaluator needs classes, which are not learned.

  Raises:
    UserError: Names the key of the config, its value and a valid one.
  """
  for name, entry in config.evals.items():
    if entry.type == "classification":
      raise UserError(
        f'config.evals.{name} is of type "classification", but objective'
        f' "{config.objective.name}" trains no classifier; use "fewshot".'
      )
