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
  """Functions of the number of updates done.

  Attributes:
    momentum: Share of the teacher that stays.
    temperature: What the teacher's similarities are divided by.
  """

  momentum: Callable[[Any], Any]
  temperature: Callable[[Any], Any]


def schedules(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> Schedules:
  """The schedules that a config asks for.

  Raises:
    UserError: One changes per epoch, and the number of examples is not known.
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
  """An average of two trees, of which the first has the share `stays`."""
  return jax.tree.map(lambda x, y: stays * x + (1 - stays) * y, old, new)


def keep_copy(
  objective_state: contract.State,
  params: contract.Params,
  name: str = "teacher",
) -> contract.State:
  """The state with an average that starts as the student, such as a teacher."""
  return {**objective_state, name: params}
