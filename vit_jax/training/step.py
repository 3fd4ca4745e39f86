"""One update of the training state: a single jitted function over a mesh."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, PyTree

from vit_jax import rngs
from vit_jax.config import schema
from vit_jax.objectives.contract import Objective
from vit_jax.optim import averaging, multipliers, schedules
from vit_jax.sharding import layouts
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import micro_batches as micro_batches_lib
from vit_jax.training import spikes
from vit_jax.training.state import TrainState

Batch = dict[str, Any]
Metrics = dict[str, Any]


def build_train_step(
  config: schema.Config,
  objective: Objective,
  tx: optax.GradientTransformation,
  scalars: Mapping[str, Callable[[Any], Any]],
  mesh: Mesh,
  shardings: TrainState,
  constant_shardings: PyTree,
) -> Callable[[PyTree, TrainState, Batch], tuple[TrainState, Metrics]]:
  """Builds `train_step(constants, state, batch) -> (state, metrics)`.

  The state is donated, the constants are not. An update whose loss or gradient
  is not finite is not applied: the state is returned unchanged except for its
  step, and `metrics["finite"]` is False. A spike is not applied either if
  `config.faults.on_spike` is 'skip'.

  Args:
    config: The experiment.
    objective: Objective to minimise.
    tx: The optimizer, including clipping.
    scalars: Metric -> its schedule, step -> value, such as `learning_rate`.
    mesh: The mesh.
    shardings: Shardings of the state.
    constant_shardings: Shardings of the objective's constants.

  Returns:
    A jitted function. `batch` has the global shapes that the data declare;
    metrics are float32 scalars, except `finite`, `spike` (bool) and
    `grad_finite` (bool, one per parameter in tree order).
  """

  def train_step(constants: PyTree, state: TrainState, batch: Batch):
    keys = functools.partial(rngs.stream, config.seed, step=state.step)
    batch = objective.prepare(batch, keys)
    loss, aux, metrics, grads = _value_and_grads(
      config, objective, constants, state, batch, keys, mesh
    )
    grads = layouts.scatterable(grads, shardings.params)
    # Clipping uses the same norm; XLA computes it once.
    squares = jnp.stack(
      [
        jnp.sum(jnp.square(grad.astype(jnp.float32)))
        for grad in jax.tree.leaves(grads)
      ]
    )
    grad_norm = jnp.sqrt(jnp.sum(squares))
    finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm)
    seen, spike = state.spikes, jnp.zeros((), bool)
    if seen is not None:
      seen, spike = spikes.update(
        seen, loss, grad_norm, zscore=config.faults.spike_zscore
      )
    skipped = spike & (config.faults.on_spike == "skip")

    opt_state = schedules.at_step(state.opt_state, state.step)
    updates, opt_state = tx.update(grads, opt_state, state.params)
    params = objective.constrain(optax.apply_updates(state.params, updates))
    updated = TrainState(
      step=state.step + 1,
      params=params,
      opt_state=opt_state,
      ema_params=_averaged(config, state, params),
      objective_state=objective.after_update(
        state.objective_state, params, aux, state.step
      ),
      spikes=seen,
    )
    unchanged = state.replace(step=updated.step, spikes=seen)
    metrics |= {
      name: jnp.asarray(schedule(state.step), jnp.float32)
      for name, schedule in scalars.items()
    }
    metrics |= {
      "loss": loss,
      "grad_norm": grad_norm,
      "finite": finite,
      "spike": spike,
      "grad_finite": jnp.isfinite(squares),
    }
    return _select(finite & ~skipped, updated, unchanged), metrics

  return jax.jit(
    train_step,
    in_shardings=(
      constant_shardings,
      shardings,
      mesh_lib.batch_sharding(mesh),
    ),
    out_shardings=(shardings, mesh_lib.replicated(mesh)),
    donate_argnums=1,
  )


def _averaged(config: schema.Config, state: TrainState, params: PyTree):
  if config.ema_decay is None:
    return None
  return averaging.update(
    state.ema_params,
    params,
    decay=config.ema_decay,
    step=state.step,
    warmup=config.ema_warmup,
  )


def _select(finite: Bool[Array, ""], updated: PyTree, unchanged: PyTree):
  def choose(new: Array, old: Array) -> Array:
    if new.dtype != jnp.bfloat16:
      return jnp.where(finite, new, old)
    # In float32, selecting the first moment is part of the single pass over
    # parameter, gradient and moments; in bfloat16, it is a separate pass.
    wide = jnp.where(finite, new.astype(jnp.float32), old.astype(jnp.float32))
    return wide.astype(new.dtype)

  return jax.tree.map(choose, updated, unchanged)


def _value_and_grads(
  config: schema.Config,
  objective: Objective,
  constants: PyTree,
  state: TrainState,
  batch: Batch,
  keys: Callable[[str], Array],
  mesh: Mesh,
) -> tuple[Float[Array, ""], PyTree, Metrics, PyTree]:
  """Computes loss, gradients, metrics and aux, averaged over micro-batches."""

  def loss_fn(params: PyTree, *args: Any):
    params = multipliers.stop_frozen(config.optimizer, params)
    return objective.loss(params, *args)

  grad_fn = jax.value_and_grad(loss_fn, has_aux=True)

  def run(batch: Batch, keys: Callable[[str], Array]):
    (loss, (aux, metrics)), grads = grad_fn(
      state.params,
      constants,
      state.objective_state,
      batch,
      keys,
      state.step,
    )
    return loss, aux, metrics, grads

  num_micro = config.train.accumulate_steps
  if num_micro == 1 or objective.accumulates:
    return run(batch, keys)

  def add(total: PyTree, numbered_batch: tuple[Any, Batch]):
    index, micro_batch = numbered_batch

    def micro_keys(name: str) -> Array:
      return jax.random.fold_in(keys(name), index)

    return jax.tree.map(jnp.add, total, run(micro_batch, micro_keys)), None

  micro_batches = jax.tree.map(
    lambda x: micro_batches_lib.split(x, num_micro, mesh), batch
  )
  shapes = jax.eval_shape(
    lambda batches: run(jax.tree.map(lambda x: x[0], batches), keys),
    micro_batches,
  )
  zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
  total, _ = jax.lax.scan(add, zeros, (jnp.arange(num_micro), micro_batches))
  return jax.tree.map(lambda x: x / num_micro, total)
