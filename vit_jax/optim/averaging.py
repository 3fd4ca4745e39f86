"""Polyak averaging of the parameters, an exponential moving average.

The paper gives the factor (0.9999) but not the initial average. A plain average
started at the initial parameters would still hold 0.9999 ** 20_000 = 14 % of
them after the paper's longest fine-tuning. Here update t, counted from 0, has
decay min(decay, (1 + t) / (10 + t)), the rule of TensorFlow's
`ExponentialMovingAverage(num_updates=t)`: the average spans about the last
tenth of the updates so far until that is longer than 1 / (1 - decay), so it is
useful at any time, the initial parameters vanish as t ** -9, and it needs no
state except the step. Without warm-up the decay is constant.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree


def init(params: PyTree) -> PyTree:
  """Returns the average before the first update: a copy of the parameters."""
  return jax.tree.map(jnp.copy, params)


def decay_at(
  step: Int[Array, ""] | int, decay: float, warmup: bool = True
) -> Float[Array, ""]:
  """Returns the decay of update number `step`, counted from 0."""
  if not warmup:
    return jnp.asarray(decay, jnp.float32)
  step = jnp.asarray(step, jnp.float32)
  return jnp.minimum(decay, (1 + step) / (10 + step))


def update(
  average: PyTree,
  params: PyTree,
  *,
  decay: float,
  step: Int[Array, ""] | int,
  warmup: bool = True,
) -> PyTree:
  """Returns the average after an update.

  Args:
    average: The average so far.
    params: Parameters after the update.
    decay: Final decay, `config.ema_decay`.
    step: Number of the update, counted from 0.
    warmup: True if the decay grows to its final value, `config.ema_warmup`.
  """
  share = 1 - decay_at(step, decay, warmup)
  return jax.tree.map(
    lambda mean, new: mean + share.astype(mean.dtype) * (new - mean),
    average,
    params,
  )
