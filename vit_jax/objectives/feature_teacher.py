"""The frozen teacher whose patch features an objective predicts."""

from typing import TYPE_CHECKING

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.objectives import frozen_path

if TYPE_CHECKING:
  from vit_jax.objectives.frozen_network import FrozenNetwork

KEY = "config.objective.teacher"


def check(config: schema.Config) -> None:
  """Checks that a teacher's path exists, if it is set.

  Raises:
    UserError: The path does not exist or cannot be accessed.
  """
  path = config.objective.teacher
  if path is not None and not _is_random(path):
    frozen_path.check(KEY, path, without=", or 'random'")


def check_files(config: schema.Config) -> None:
  """Checks that a teacher can be learned from, if it is set.

  Raises:
    UserError: As for `read`.
  """
  path = config.objective.teacher
  if path is None or _is_random(path):
    return
  from vit_jax.objectives import frozen_network

  with frozen_path.told(KEY):
    frozen_network.section_of_patches(KEY, path, config.model)


def read(config: schema.Config) -> "FrozenNetwork":
  """Reads the teacher.

  Raises:
    UserError: There is no teacher, or it cannot have the student's patches.
  """
  from vit_jax.objectives import frozen_network

  path = config.objective.teacher
  if path is None:
    raise UserError(
      f'{KEY} is not set, and objective "{config.objective.name}" learns from'
      " the features of a teacher; name a checkpoint of any form, or 'random'"
      " for a network with random parameters, to try things out."
    )
  return frozen_network.read_patches(
    KEY, path, config.model, projected=_is_projected(config)
  )


def cost(config: schema.Config) -> tuple[int, int] | None:
  """Returns the width of a patch's features and the teacher's FLOPs per image.

  It is None without a teacher.
  """
  path = config.objective.teacher
  if path is None:
    return None
  from vit_jax.objectives import frozen_network

  return frozen_network.patches_cost(
    KEY, path, config.model, projected=_is_projected(config)
  )


def describe(config: schema.Config) -> dict[str, str]:
  """Names the teacher."""
  return {"teacher": config.objective.teacher or "none yet"}


def _is_random(path: str) -> bool:
  return frozen_path.RANDOM.fullmatch(path) is not None


def _is_projected(config: schema.Config) -> bool:
  return config.objective.teacher_features == "projected"
