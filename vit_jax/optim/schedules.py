"""The learning rate as a function of the number of updates done.

Update number t, counted from 0, uses schedule(t): with warmup the first one has
rate 0, and the last of T uses schedule(T - 1), one step short of the end value,
as in big_vision and google-research/vision_transformer.
"""

from typing import Any

from etils import epy

from vit_jax import durations
from vit_jax.config import scalars, schema
from vit_jax.errors import UserError
from vit_jax.optim.scalars import Schedule, interpolate

with epy.lazy_imports():  # Checking a config must not load jax.
  import jax
  import jax.numpy as jnp

# States that count updates for a schedule.
_COUNTING = ("ScaleByScheduleState", "WeightDecaySchedule", "HeldUntilState")


def learning_rate(
  schedule: schema.Schedule,
  *,
  total_steps: int,
  batch_size: int,
  num_examples: int | None,
) -> Schedule:
  """Linear warmup from 0 to `base_lr`, then the shape named by `decay`.

  With W warmup steps, T total steps and progress p = (t - W) / (T - W):
    constant: base_lr; `end_lr` is not used.
    linear: base_lr + p (end_lr - base_lr).
    cosine: end_lr + (base_lr - end_lr) (1 + cos(pi p)) / 2.
    rsqrt: base_lr sqrt(s / (s + t - W)), s = rsqrt_timescale; at least end_lr.
    steps: base_lr factor ** (boundaries <= t); at least end_lr.

  Without `warmup_prefix` the shape counts from step 0, as timm's schedulers do
  by default: p = t / T, and t instead of t - W. The warmup still rises to
  base_lr, and at W the rate drops to the current value of the shape. With C
  cooldown steps the result is multiplied by min(1, (T - t) / C), so it falls to
  0 regardless of end_lr.

  Args:
    schedule: The config's section.
    total_steps: Updates of the run.
    batch_size: Global batch, to count durations given in examples.
    num_examples: Training examples, to count durations given in epochs.

  Returns:
    A function of the number of updates done, an int or an integer scalar that
    may be traced; the result is a float32 scalar.

  Raises:
    UserError: Warmup, cooldown or a boundary does not lie within the run, or
      `end_lr` is above `base_lr`.
  """
  base, end, decay = schedule.base_lr, schedule.end_lr, schedule.decay
  counts = {"batch_size": batch_size, "num_examples": num_examples}
  warmup, cooldown, boundaries, timescale = in_steps(
    schedule, total_steps=total_steps, **counts
  )
  origin = warmup if schedule.warmup_prefix else 0

  def at(step: Any) -> Any:
    step = jnp.asarray(step, jnp.float32)
    after = jnp.maximum(step - origin, 0)
    progress = jnp.minimum(after / (total_steps - origin), 1)
    if decay in scalars.SHAPES:
      rate = interpolate(decay, base, end, progress)
    elif decay == "rsqrt":
      rate = jnp.maximum(base * jnp.sqrt(timescale / (timescale + after)), end)
    else:
      passed = jnp.sum(step >= jnp.asarray(boundaries, jnp.float32))
      rate = jnp.maximum(base * schedule.factor**passed, end)
    if origin < warmup:
      rate = jnp.where(step < warmup, base, rate)
    ramp = jnp.minimum(step / warmup, 1) if warmup else 1
    if cooldown:
      ramp *= jnp.clip((total_steps - step) / cooldown, 0, 1)
    return jnp.asarray(rate * ramp, jnp.float32)

  return at


def at_step(opt_state: Any, step: Any) -> Any:
  """Returns the optimizer's state with its schedules at `step`.

  optax counts the updates that were applied. A run also counts skipped updates,
  so that it ends at the end of its schedules.

  Args:
    opt_state: State of a transformation of `build.build`.
    step: int32 [], number of updates done, skipped ones included.
  """

  def is_schedule(node: Any) -> bool:
    return type(node).__name__ in _COUNTING

  def moved(node: Any) -> Any:
    if not is_schedule(node):
      return node
    # Transformations that hold parameters contain the state of their rule.
    inner = {
      name: at_step(value, step)
      for name, value in node._asdict().items()
      if name != "count"
    }
    return type(node)(count=step, **inner)

  return jax.tree.map(moved, opt_state, is_leaf=is_schedule)


def in_steps(
  schedule: schema.Schedule,
  *,
  total_steps: int,
  batch_size: int,
  num_examples: int | None,
) -> tuple[int, int, tuple[int, ...], int]:
  """Returns checked warmup, cooldown, boundaries and timescale in steps.

  Arguments and errors are those of `learning_rate`.
  """

  def count(name: str, value: int | str) -> int:
    try:
      return durations.parse(value).to_steps(
        batch_size=batch_size,
        num_examples=num_examples,
        total_steps=total_steps,
      )
    except ValueError as error:
      raise UserError(f"config.schedule.{name}: {error}") from None

  warmup = count("warmup_steps", schedule.warmup_steps)
  if warmup >= total_steps:
    raise UserError(
      f"config.schedule.warmup_steps = {schedule.warmup_steps!r} is {warmup}"
      f" steps and the run has {total_steps}; use fewer than that or train"
      " longer."
    )
  cooldown = count("cooldown_steps", schedule.cooldown_steps)
  if warmup + cooldown > total_steps:
    raise UserError(
      f"config.schedule.cooldown_steps = {schedule.cooldown_steps!r} is"
      f" {cooldown} steps; with {warmup} of warmup they are more than the"
      f" {total_steps} of the run. Use fewer or train longer."
    )
  if schedule.decay != "constant" and schedule.end_lr > schedule.base_lr:
    raise UserError(
      f"config.schedule.end_lr = {schedule.end_lr:g} is above"
      f" config.schedule.base_lr = {schedule.base_lr:g}; the rate must not"
      " grow after warmup."
    )
  boundaries, timescale = (), 1
  if schedule.decay == "steps":
    boundaries = tuple(count("boundaries", x) for x in schedule.boundaries)
    last = max(boundaries, default=0)
    if not boundaries or sorted(set(boundaries)) != list(boundaries):
      raise UserError(
        f"config.schedule.boundaries = {schedule.boundaries!r} must be"
        " moments in growing order, such as (30_000, 60_000)."
      )
    if last >= total_steps:
      raise UserError(
        f"config.schedule.boundaries = {schedule.boundaries!r}: the last is"
        f" step {last} and the run has {total_steps}; move it into the run"
        " or leave it out."
      )
  if schedule.decay == "rsqrt":
    timescale = count("rsqrt_timescale", schedule.rsqrt_timescale)
    if timescale < 1:
      raise UserError(
        f"config.schedule.rsqrt_timescale = {schedule.rsqrt_timescale!r}"
        " must be at least one step."
      )
  return warmup, cooldown, boundaries, timescale
