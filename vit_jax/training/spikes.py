"""Detection of steps whose loss or gradient norm is unusually high.

The statistics are part of the training state, so a restarted run sees the same
spikes. They are a few scalars inside the jitted step.
"""

from typing import Any

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

WINDOW = 100  # Averaging window, and steps before any is judged.


@flax.struct.dataclass
class Statistics:
  """Statistics of [loss, gradient norm], float32 [2]; `count` is int32 []."""

  count: Any
  mean: Any
  variance: Any


def init() -> Statistics:
  """Returns the statistics of no steps."""
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
  """Updates the statistics with a step.

  The mean and variance are exponentially weighted over `WINDOW` steps. A spike
  is clipped to the limit, so that it does not hide the next one and a new level
  is gradually accepted. A value that has never changed, such as the loss of a
  head that is held at zero, is not judged: the count restarts at its first
  change.

  Args:
    statistics: Statistics of the previous steps.
    loss, grad_norm: Values of this step; non-finite values change nothing.
    zscore: Number of standard deviations above the mean that defines a spike.

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
