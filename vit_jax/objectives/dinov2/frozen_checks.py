"""Checks of a frozen teacher, without jax."""

from collections.abc import Mapping

from etils import epath

from vit_jax import named_weights, registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.objectives.dino import views
from vit_jax.objectives.dinov2 import plan as plans
from vit_jax.pretrained import run_files

KEY = "config.objective.teacher"
_STEPS = "checkpoints"


def check_run(config: schema.Config) -> None:
  """Checks a teacher that is a vit_jax run; other files are read later.

  Raises:
    UserError: The student cannot learn from it.
  """
  path = epath.Path(named_weights.local(config.objective.teacher))
  for workdir in (path, path.parent, path.parent.parent):
    if (workdir / run_files.CONFIG).exists() and (workdir / _STEPS).exists():
      found = run_files.read_config(workdir)
      check(config, found.model, found.objective)
      return


def check(
  config: schema.Config,
  model: schema.Model,
  objective: schema.Objective | None,
) -> None:
  """Checks that a student can learn from a teacher.

  Args:
    config: The student's experiment.
    model: Section `model` of the teacher.
    objective: Section `objective` of the teacher's heads; None if it has none.

  Raises:
    UserError: The teacher has no DINOv2 heads, or its prototypes or patches
      differ from the student's.
  """
  student, path = config.objective, config.objective.teacher
  if objective is None or objective.name != "dinov2":
    has = "no heads" if objective is None else f'heads of "{objective.name}"'
    raise UserError(
      f"{KEY} = {path!r} has {has}, but a student learns what the heads of a"
      " DINOv2 say of images and patches, which the published networks come"
      " without; give a run of configs/dinov2.py, or a checkpoint with heads."
    )
  for key in ("prototypes", "separate_patch_head"):
    theirs, ours = getattr(objective, key), getattr(student, key)
    if theirs != ours:
      raise UserError(
        f"{KEY} = {path!r} has {key} = {theirs}, but"
        f" config.objective.{key} = {ours}; set it to {theirs}."
      )
  side = views.side(config, views.GLOBAL)
  family = registry.FAMILIES.get(model.name)
  grid, patch_size = family.grid(model.updated(image_size=side))
  wanted = plans.of(config).grid
  covers = side % patch_size == 0 or getattr(model, "drop_remainder", False)
  if grid != wanted or not covers:
    raise UserError(
      f"{KEY} = {path!r} cuts global crops of {side} pixels into {grid} x"
      f" {grid} patches of {patch_size} pixels, but the student of"
      f" config.model.variant = {config.model.variant!r} into {wanted} x"
      f" {wanted}; use a variant with patches of {patch_size} pixels."
    )


def check_heads(
  path: str,
  model: schema.Model,
  objective: schema.DINOv2,
  shapes: Mapping[str, tuple[int, ...]],
) -> None:
  """Checks that a teacher's heads are complete and match its network.

  Args:
    path: The checkpoint, for messages.
    model: Section `model` of the teacher.
    objective: Section `objective` of its heads.
    shapes: {path: shape} of all parameters in addition to its network.

  Raises:
    UserError: A head is missing or has another width.
  """
  width = registry.FAMILIES.get(model.name).size(model).width
  heads = {"dino_head": objective.bottleneck}
  if objective.separate_patch_head:
    heads["ibot_head"] = objective.patch_bottleneck
  for head, bottleneck in heads.items():
    sides = (width, objective.hidden_width, objective.hidden_width, bottleneck)
    wanted = {
      f"{head}/Dense_{layer}/kernel": sides[layer : layer + 2]
      for layer in range(3)
    }
    prototypes = (objective.prototypes, bottleneck)
    wanted[f"{head}/prototypes/kernel"] = prototypes
    for name, shape in wanted.items():
      found = shapes.get(name)
      if found is None:
        raise UserError(
          f"{KEY} = {path!r} lacks {head}; give a run of configs/dinov2.py, or"
          " a checkpoint with both heads."
        )
      if found != shape:
        raise UserError(
          f"{KEY} = {path!r} has {name} of shape {found}, but its network and"
          f" its other parameters go with {shape}; give a checkpoint whose"
          " network and heads were trained together."
        )
