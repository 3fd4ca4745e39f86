"""A frozen classifier that a student learns from."""

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.objectives import frozen_network
from vit_jax.objectives.frozen_network import FrozenNetwork


def read(config: schema.Config, num_classes: int) -> FrozenNetwork:
  """Reads the teacher of `config.objective.teacher`.

  Args:
    config: The experiment; the teacher computes in the student's dtype.
    num_classes: Classes of the training data.

  Raises:
    UserError: The checkpoint cannot be read, or its classes differ.
  """
  path = config.objective.teacher
  teacher = frozen_network.read(path, config.model.dtype)
  if teacher.predicts_numbers:
    raise UserError(
      f"config.objective.teacher = {path!r} predicts numbers; take a teacher"
      " that was trained on the same classes."
    )
  found = teacher.section.num_classes
  if found != num_classes:
    has = "no head" if found is None else f"{found} classes"
    raise UserError(
      f"config.objective.teacher = {path!r} has {has}, but the training data"
      f" has {num_classes}; take a teacher that was trained on the same"
      " classes."
    )
  return teacher
