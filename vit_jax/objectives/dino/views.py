"""The crops compared by self-distillation, by the names of their views.

Views whose names begin with "global" are seen by teacher and student, those
that begin with "local" only by the student.
"""

from collections.abc import Mapping
from typing import Any

from etils import epy

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError

with epy.lazy_imports():  # Checking a config must not load jax.
  import jax.numpy as jnp

GLOBAL, LOCAL = "global", "local"


def names(config: schema.Config, kind: str) -> tuple[str, ...]:
  """Returns the names of the views of a kind, in config order."""
  return tuple(name for name in config.train.views if name.startswith(kind))


def count(config: schema.Config, kind: str) -> int:
  """Returns the number of crops of a kind per image."""
  return sum(config.train.views[name].count for name in names(config, kind))


def side(config: schema.Config, kind: str) -> int:
  """Returns the side of the crops of a kind, in pixels."""
  view = config.train.views[names(config, kind)[0]]
  return config.model.image_size if view.size is None else view.size


def joined(batch: Mapping[str, Any], names: tuple[str, ...]) -> Any:
  """Joins crops of some views of each image: [b, crops, side, side, 3]."""
  crops = [batch[name] for name in names]
  return crops[0] if len(crops) == 1 else jnp.concatenate(crops, axis=1)


def check(config: schema.Config) -> None:
  """Raises UserError for views that cannot be compared with each other."""
  views, objective = config.train.views, config.objective.name
  for name in views:
    if not name.startswith((GLOBAL, LOCAL)):
      raise UserError(
        f"config.train.views.{name} is neither global nor local, as objective"
        f' "{objective}" asks; let its name begin with one of these words.'
      )
  if count(config, GLOBAL) < 2:
    raise UserError(
      f"config.train.views ({', '.join(views) or 'empty'}) has"
      f" {count(config, GLOBAL)} global crops of an image, but objective"
      f' "{objective}" compares at least two; give a view "global" a count of'
      " 2, and ops that make a crop."
    )
  family = registry.FAMILIES.get(config.model.name)
  for kind in (GLOBAL, LOCAL):
    sides = {}
    for name in names(config, kind):
      size = views[name].size
      sides[config.model.image_size if size is None else size] = name
    if len(sides) > 1:
      shown = " and ".join(
        f"config.train.views.{name} makes {size} pixels"
        for size, name in sides.items()
      )
      raise UserError(f"{shown}, but {kind} crops are of one size; choose one.")
    for size, name in sides.items():
      _check_patches(family, config.model, size, name)


def _check_patches(family, model, size, name):
  if not family.has_tokens or getattr(model, "drop_remainder", False):
    return
  _, patch_size = family.grid(model)
  if size % patch_size:
    below = max(1, size // patch_size) * patch_size
    raise UserError(
      f"config.train.views.{name} makes crops of {size} pixels, which patches"
      f" of {patch_size} do not cover; use {below} or {below + patch_size}."
    )
