"""Checks of a config before jax or data is touched."""

from vit_jax.config import best_metric, schema
from vit_jax.data import features, sources, splits
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
