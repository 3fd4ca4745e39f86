"""Steps whose loss or gradient norm is far above those before.

Statistics are part of the training state, so a run that is started again sees
the same spikes. They are a few scalars inside the jitted step.
"""

from typing import Any

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

WINDOW = 100  # Steps that count, and that pass before any is judged.


@flax.struct.dataclass
class Statistics:
  """Of [loss, gradient norm], float32 [2] each; `count` steps, int32 []."""

  count: Any
  mean: Any
  variance: Any


def init() -> Statistics:
  """Of no step."""
  return Statistics(
    count=jnp.zeros((), jnp.int32),
    mean=jnp.zeros(2, jnp.float32),
    variance=jnp.zeros(2, jnp.float32),
  )


def update(
  statistics: Statistics,
  loss: Float[Array, ""],
  grad_norm: Float[Array, ""],
  *,
  zscore: float | int,
) -> tuple[Statistics, Bool[Array, ""]]:
  """Takes in a step.

  The mean and variance are running ones over `WINDOW` steps, weighted
  exponentially. A spike is taken in as if it stood at the limit, so that one
  does not hide the next, and a new level is got used to. What has never
  changed, as the loss of a head that is held at zero, is no measure: steps
  count anew from its first change.

  Args:
    statistics: Statistics of the steps before.
    loss, grad_norm: Values of this step; if they are not finite, nothing
      changes.
    zscore: Standard deviations above the mean that make a spike.

  Returns:
    The statistics, and whether the step is a spike.
  """
  values = jnp.stack([loss, grad_norm]).astype(jnp.float32)
  limit = statistics.mean + zscore * jnp.sqrt(statistics.variance)
  is_full, is_still = statistics.count >= WINDOW, statistics.variance == 0
  is_judged = is_full & ~is_still
  finite = jnp.isfinite(values).all()
  spike = finite & (is_judged & (values > limit)).any()
  taken = jnp.where(is_judged, jnp.minimum(values, limit), values)
  weight = 1 / jnp.minimum(statistics.count + 1, WINDOW).astype(jnp.float32)
  change = taken - statistics.mean
  mean = statistics.mean + weight * change
  variance = (1 - weight) * (statistics.variance + weight * change**2)
  begins = is_full & (is_still & (change != 0)).any()
  count = jnp.where(begins, 1, statistics.count + 1)
  return (
    Statistics(
      count=jnp.where(finite, count, statistics.count),
      mean=jnp.where(finite, mean, statistics.mean),
      variance=jnp.where(finite, variance, statistics.variance),
    ),
    spike,
  )
