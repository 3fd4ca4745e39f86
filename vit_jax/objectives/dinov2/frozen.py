"""A DINOv2 that teaches and stays as it is."""

import functools

import jax
import numpy as np

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.objectives.contract import Constants
from vit_jax.objectives.dino import views
from vit_jax.objectives.dinov2 import frozen_checks
from vit_jax.objectives.dinov2.heads import IMAGES, PATCHES, Learner
from vit_jax.pretrained import load, reading

# Whether patches have a head of their own -> names of the heads.
_HEADS = {False: {IMAGES}, True: {IMAGES, PATCHES}}


def read(config: schema.Config) -> tuple[Learner, Constants]:
  """Reads the teacher of `config.objective.teacher`, network and heads.

  It computes in the student's dtype.

  Raises:
    UserError: It cannot be read, or the student cannot learn from it.
  """
  path = config.objective.teacher
  weights = reading.read(path)
  frozen_checks.check(config, weights.model, weights.objective)
  missing = _HEADS[weights.objective.separate_patch_head] - set(weights.beside)
  if missing:
    raise UserError(
      f"config.objective.teacher = {path!r} lacks {', '.join(sorted(missing))};"
      " give a run of configs/dinov2.py, or a checkpoint with both heads."
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


@functools.cache
def _sections(path: str) -> tuple[schema.Model, schema.Objective]:
  weights = reading.read(path)
  return weights.model, weights.objective


def config_of(config: schema.Config) -> schema.Config:
  """The student's config with network and heads of its teacher."""
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
