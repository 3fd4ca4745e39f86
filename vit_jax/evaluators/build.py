"""Construction of evaluators from `config.evals`."""

import importlib
from typing import TYPE_CHECKING

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.evaluators import entry_checks

if TYPE_CHECKING:  # Checking names must not load jax.
  from vit_jax.evaluators import contract


def build(
  name: str, config: schema.Eval, context: "contract.Context"
) -> "contract.Evaluator":
  """Builds the evaluator `config.evals.<name>` and opens its data.

  Raises:
    UserError: The data is missing or does not fit the model.
  """
  module, _, function = registry.EVALUATORS.get(config.type).build.partition(
    ":"
  )
  build_one = getattr(importlib.import_module(module), function)
  return build_one(name, config, context)


def check(config: schema.Config) -> None:
  """Checks all evaluators, as far as possible without data.

  Raises:
    UserError: A key is wrong; the message names it.
  """
  for name, entry in config.evals.items():
    entry_checks.check_name(name, "config.evals")
    registry.EVALUATORS.get(entry.type).check(name, entry, config)


def features(config: schema.Config) -> set[str]:
  """Returns the outputs of the objective that the evaluators read."""
  return {
    feature
    for entry in config.evals.values()
    for feature in registry.EVALUATORS.get(entry.type).features(entry)
  }
