"""A teacher that is an average of its student over the updates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.objectives import contract
from vit_jax.optim import scalars


class Schedules(NamedTuple):
  """Schedules, as functions of the number of updates.

  Attributes:
    momentum: Fraction of the teacher that is kept in an update.
    temperature: Temperature that divides the teacher's similarities.
  """

  momentum: Callable[[Any], Any]
  temperature: Callable[[Any], Any]


def schedules(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> Schedules:
  """Returns the schedules of a config.

  Raises:
    UserError: A schedule changes per epoch, and the number of examples is not
      known.
  """

  def of(name):
    return scalars.schedule(
      getattr(config.objective, name),
      key=f"config.objective.{name}",
      total_steps=total_steps,
      batch_size=config.train.batch_size,
      num_examples=facts.num_examples,
    )

  return Schedules(of("teacher_momentum"), of("teacher_temperature"))


def follow(old: Any, new: Any, stays: Float[Array, ""] | float) -> Any:
  """Returns an average of two trees, with weight `stays` for the first."""
  return jax.tree.map(lambda x, y: stays * x + (1 - stays) * y, old, new)


def keep_copy(
  objective_state: contract.State,
  params: contract.Params,
  name: str = "teacher",
) -> contract.State:
  """Adds a copy of the student, such as a teacher, to the state."""
  return {**objective_state, name: params}
