"""Checkpoints as `inspection` is given them."""

from tests.models.networks import random_params
from vit_jax.inspection import network
from vit_jax.models import build
from vit_jax.weights.contract import Weights


def weights(model, params=None):
  """Of a module of tests.models.networks; parameters are random by default."""
  if params is None:
    params = random_params(model)
  return Weights(path="test", model=build.config_of(model), params=params)


def network_of(model, params=None):
  return network.of_weights(weights(model, params))
