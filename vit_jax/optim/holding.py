"""Holding parameters fixed at the beginning of a run."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from vit_jax import durations, trees
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.optim import multipliers

_logger = logging.getLogger(__name__)


class HeldUntilState(NamedTuple):
  """State of a transformation that holds parameters.

  Attributes:
    count: Number of updates done, int32 [].
    inner: State of the update rule.
  """

  count: Any
  inner: Any


def starts(
  optimizer: schema.Optimizer,
  paths: Sequence[str],
  *,
  batch_size: int,
  num_examples: int | None,
  total_steps: int,
) -> dict[str, int]:
  """Returns path -> step of its first update, by `optimizer.freeze_until`.

  Warns about parameters that are held for the whole run.

  Raises:
    UserError: A regex matches no parameter, or a duration is in epochs and the
      number of examples is unknown.
  """
  rules = []
  regexes = [regex for regex, _ in optimizer.freeze_until]
  multipliers.check_regexes("freeze_until", regexes, paths)
  for regex, duration in optimizer.freeze_until:
    try:
      steps = durations.parse(duration).to_steps(
        batch_size=batch_size,
        num_examples=num_examples,
        total_steps=total_steps,
      )
    except ValueError as error:
      raise UserError(f"config.optimizer.freeze_until: {error}") from None
    if steps >= total_steps:
      _logger.warning(
        "config.optimizer.freeze_until holds the parameters %r for %d steps,"
        " and the run has %d: they never learn. Give a share of the run, such"
        " as '1%%', or train longer.",
        regex,
        steps,
        total_steps,
      )
    rules.append((regex, steps))
  return {
    path: next((n for regex, n in rules if re.fullmatch(regex, path)), 0)
    for path in paths
  }


def hold(
  tx: optax.GradientTransformation, starts: Mapping[str, int]
) -> optax.GradientTransformation:
  """Applies `tx` to each parameter only from its start step, without history.

  Until then the parameter has neither moments nor weight decay, as in the
  released code of DINO. Schedules follow the steps of the run
  (`schedules.at_step`).

  Args:
    tx: The update rule.
    starts: Path -> step of the first update.
  """

  def labels(tree: Any) -> Any:
    return trees.map_named(lambda path, _: str(starts[path]), tree)

  return optax.partition(
    {str(n): _from(tx, n) if n else tx for n in set(starts.values())}, labels
  )


def at_rate_zero(
  tx: optax.GradientTransformation, starts: Mapping[str, int]
) -> optax.GradientTransformation:
  """Applies `tx` to all parameters, but drops updates before their starts.

  Moments therefore accumulate from the first step, as in the released code of
  DINOv2.

  Args:
    tx: The update rule.
    starts: Path -> step of the first update.
  """

  def init(params: Any) -> HeldUntilState:
    return HeldUntilState(jnp.zeros((), jnp.int32), tx.init(params))

  def update(updates: Any, state: HeldUntilState, params: Any = None):
    updates, inner = tx.update(updates, state.inner, params)

    def from_start(path, update):
      begun = state.count >= starts[path]
      return jnp.where(begun, update, jnp.zeros_like(update))

    updates = trees.map_named(from_start, updates)
    return updates, HeldUntilState(state.count + 1, inner)

  return optax.GradientTransformation(init, update)


HOLDING = {"hold": hold, "zero_rate": at_rate_zero}


def _from(
  tx: optax.GradientTransformation, start: int
) -> optax.GradientTransformation:
  def init(params: Any) -> HeldUntilState:
    return HeldUntilState(jnp.zeros((), jnp.int32), tx.init(params))

  def update(updates: Any, state: HeldUntilState, params: Any = None):
    begun = state.count >= start

    def choose(new, old):
      return jnp.where(begun, new, old)

    updates, inner = tx.update(updates, state.inner, params)
    updates = jax.tree.map(lambda x: choose(x, jnp.zeros_like(x)), updates)
    inner = jax.tree.map(choose, inner, state.inner)
    return updates, HeldUntilState(state.count + 1, inner)

  return optax.GradientTransformation(init, update)
