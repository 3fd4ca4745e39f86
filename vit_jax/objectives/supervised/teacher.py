"""A frozen classifier that a student learns from."""

import logging
from collections.abc import Sequence

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.objectives import frozen_network
from vit_jax.objectives.frozen_network import FrozenNetwork
from vit_jax.weights import class_names

_logger = logging.getLogger(__name__)


def read(
  config: schema.Config, num_classes: int, names: Sequence[str] | None = None
) -> FrozenNetwork:
  """Reads the teacher of `config.objective.teacher`.

  Logs a warning if the names of its classes contradict those of the data.

  Args:
    config: The experiment; the teacher computes in the student's dtype.
    num_classes: Number of classes of the training data.
    names: Names of these classes; None if unknown.

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
  if other := class_names.difference(names, teacher.class_names):
    _logger.warning(
      "config.objective.teacher = %r %s, and the student learns its classes by"
      " their numbers. Unless they are numbered alike, take a teacher that was"
      " trained on the same classes.",
      path,
      other,
    )
  return teacher
