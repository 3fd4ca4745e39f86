"""A DINOv2 network as a frozen teacher."""

import functools

import jax
import numpy as np

from vit_jax.config import schema
from vit_jax.models import build
from vit_jax.objectives.contract import Constants
from vit_jax.objectives.dino import views
from vit_jax.objectives.dinov2 import frozen_checks
from vit_jax.objectives.dinov2.heads import Learner
from vit_jax.pretrained import load, reading
from vit_jax.weights import flat
from vit_jax.weights.contract import Weights


def read(config: schema.Config) -> tuple[Learner, Constants]:
  """Reads the teacher of `config.objective.teacher`, network and heads.

  It computes in the student's dtype.

  Raises:
    UserError: It cannot be read, or the student cannot learn from it.
  """
  path = config.objective.teacher
  weights = reading.read(path)
  frozen_checks.check(config, weights.model, weights.objective)
  frozen_checks.check_heads(
    path, weights.model, weights.objective, _shapes(weights)
  )
  dtype = config.model.dtype
  model = weights.model.updated(**load.ANY_DEVICE, dtype=dtype)
  network = build.create(model, num_classes=None)
  params = {
    name: tree for name, tree in weights.params.items() if name != "head"
  }
  params = jax.tree.map(np.asarray, {**params, **weights.beside})
  learner = Learner.of(network, weights.objective, dtype)
  return learner, Constants.of(path, params)


def _shapes(weights: Weights) -> dict[str, tuple[int, ...]]:
  """Returns the shapes of parameters other than the network's, by path."""
  leaves = flat.flatten(weights.beside)
  return {path: np.shape(leaf) for path, leaf in leaves.items()}


@functools.cache
def _sections(path: str) -> tuple[schema.Model, schema.Objective | None]:
  """Reads a teacher's `model` and `objective`, without touching a device."""
  run = reading.run_config(path)
  if run is not None:
    return run.model, run.objective
  weights = reading.read(path)
  if weights.objective is not None and weights.objective.name == "dinov2":
    frozen_checks.check_heads(
      path, weights.model, weights.objective, _shapes(weights)
    )
  return weights.model, weights.objective


def config_of(config: schema.Config) -> schema.Config:
  """Returns the student's config with the network and heads of its teacher.

  Raises:
    UserError: The teacher cannot be read, or the student cannot learn from it.
  """
  model, objective = _sections(config.objective.teacher)
  frozen_checks.check(config, model, objective)
  model = model.updated(image_size=views.side(config, views.GLOBAL))
  objective = objective.model_copy(
    update={
      "teacher": None,
      **{
        key: getattr(config.objective, key)
        for key in ("patches", "group", "mask_probability", "mask_ratio")
      },
    }
  )
  return config.model_copy(update={"model": model, "objective": objective})
