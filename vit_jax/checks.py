"""Checks of a config before jax or data are touched."""

import importlib.util

from vit_jax import registry
from vit_jax.config import best_metric, schema
from vit_jax.data import features, sources, splits
from vit_jax.errors import UserError
from vit_jax.evaluators import build as evaluators_build
from vit_jax.models import build as models_build
from vit_jax.objectives import build as objectives_build
from vit_jax.optim import build as optim_build


def check(config: schema.Config) -> None:
  """Runs the check of every package on its part of the config.

  Raises:
    UserError: The first problem found.
  """
  models_build.check(config.model)
  sources.check(config.train.dataset)
  splits.parse(config.train.split)
  objectives_build.check(config, features.check(config))
  optim_build.check(config)
  evaluators_build.check(config)
  best_metric.find(config)


def check_files(config: schema.Config) -> None:
  """Reads files that the objective learns from, such as a frozen teacher.

  No device is touched.

  Raises:
    UserError: A file is missing or damaged, or cannot be learned from.
  """
  registry.OBJECTIVES.get(config.objective.name).check_files(config)


def check_trackers(config: schema.Config) -> None:
  """Raises UserError if a package that `config.log.to` needs is missing."""
  for name in config.log.to:
    package = registry.TRACKERS.get(name).package
    found = importlib.util.find_spec(package)
    # A directory of that name, as created by wandb, has no origin.
    if found is None or found.origin is None:
      raise UserError(
        f"config.log.to = {name!r} needs the package {package}, which is"
        f" missing: run `pip install {package}`, or leave it out."
      )
