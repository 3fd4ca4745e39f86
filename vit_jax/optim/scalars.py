"""Scalars of a config as functions of the number of updates done."""

from collections.abc import Callable
from typing import Any

import numpy as np
from etils import epy

from vit_jax import durations
from vit_jax.config import scalars
from vit_jax.errors import UserError

with epy.lazy_imports():  # Checking a config must not load jax.
  import jax.numpy as jnp

Schedule = Callable[[Any], Any]


def schedule(
  value: float | str,
  *,
  key: str,
  total_steps: int,
  batch_size: int,
  num_examples: int | None,
) -> Schedule:
  """Returns a scalar as a function of the number of updates done.

  With W warm-up steps, L steps of change and progress p = (t - W) / L, at most
  1, where L is T - W if `over` is not given:
    constant: first.
    linear: first + p (last - first).
    cosine: last + (first - last) (1 + cos(pi p)) / 2.
  During warm-up it is warmup_from + (first - warmup_from) t / W. Per epoch, t
  is the first step that begins in the epoch of the step.

  Args:
    value: A number or text, see `vit_jax.config.scalars`.
    key: Config key of the value, for messages.
    total_steps: T, updates of the run.
    batch_size: Global batch, to count durations given in examples.
    num_examples: Training examples, to count epochs; None if unknown.

  Returns:
    A function of an int or an integer scalar, which may be traced; the result
    is a float32 scalar.

  Raises:
    UserError: The warm-up is not shorter than the run, or epochs cannot be
      counted because the number of examples is unknown.
  """
  scalar = scalars.parse(value)

  def steps(duration: int | str) -> int:
    try:
      return durations.parse(duration).to_steps(
        batch_size=batch_size,
        num_examples=num_examples,
        total_steps=total_steps,
      )
    except ValueError as error:
      raise UserError(f"{key}: {error}") from None

  warmup = steps(scalar.warmup)
  if warmup >= total_steps:
    raise UserError(
      f"{key} = {value!r} warms up for {warmup} steps and the run has"
      f" {total_steps}; use fewer than that or train longer."
    )
  length = total_steps - warmup if scalar.over is None else steps(scalar.over)
  starts = None
  if scalar.per == "epoch":
    starts = _epoch_starts(key, total_steps, batch_size, num_examples)

  def at(step: Any) -> Any:
    step = jnp.asarray(step)
    if starts is not None:
      epoch = jnp.searchsorted(jnp.asarray(starts), step, side="right") - 1
      step = jnp.asarray(starts)[epoch]
    step = step.astype(jnp.float32)
    progress = jnp.clip((step - warmup) / max(length, 1), 0, 1)
    changed = interpolate(scalar.shape, scalar.first, scalar.last, progress)
    if warmup:
      rise = (scalar.first - scalar.warmup_from) * step / warmup
      changed = jnp.where(step < warmup, scalar.warmup_from + rise, changed)
    return jnp.asarray(changed, jnp.float32)

  return at


def interpolate(shape: str, first: float, last: float, progress: Any) -> Any:
  """Interpolates between `first` (progress 0) and `last` (progress 1)."""
  if shape == "constant":
    return first
  if shape == "linear":
    return first + progress * (last - first)
  return last + (first - last) * (1 + jnp.cos(jnp.pi * progress)) / 2


def _epoch_starts(
  key: str, total_steps: int, batch_size: int, num_examples: int | None
) -> np.ndarray:
  """Returns int32 [epochs]: the first step that begins in each epoch."""
  if num_examples is None:
    raise UserError(
      f"{key} changes per epoch, and the number of training examples is not"
      " known; let it change per step."
    )
  epochs = -(-total_steps * batch_size // num_examples)
  starts = -(-np.arange(epochs, dtype=np.int64) * num_examples // batch_size)
  # If a batch spans several epochs, the step belongs to the last one.
  return starts[starts < total_steps].astype(np.int32)
