"""Estimate of the memory needed for training on one device."""

import math
from typing import Any

import jax

from vit_jax import trees
from vit_jax.optim import multipliers
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules
from vit_jax.training.experiment import Experiment


def by_purpose(parts: Experiment) -> dict[str, int]:
  """Returns the bytes on one device by purpose."""
  state, shardings = parts.abstract_state, parts.shardings
  params = rules.shard_bytes(state.params, shardings.params)
  return {
    "parameters": params,
    "optimizer state": rules.shard_bytes(state.opt_state, shardings.opt_state),
    "averaged parameters": rules.shard_bytes(
      state.ema_params, shardings.ema_params
    ),
    "gradients": params,
    "constants": rules.shard_bytes(
      parts.abstract_constants,
      jax.tree.map(lambda leaf: leaf.sharding, parts.abstract_constants),
    ),
    "batch": sum(
      math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
      for leaf in parts.abstract_batch().values()
    ),
    "activations kept for the backward pass": activation_bytes(parts),
  }


def activation_bytes(parts: Experiment) -> int:
  """Counts bytes of a micro-batch's residuals on one device, unfused.

  Counts the residuals of the backward pass without fusion and without splits
  over the tensor axis: an upper bound on the memory of the compiled step.
  """
  config, objective = parts.config, parts.objective
  state = parts.abstract_state
  num_examples = config.train.batch_size // config.train.accumulate_steps
  batch = {
    name: jax.ShapeDtypeStruct((num_examples, *leaf.shape[1:]), leaf.dtype)
    for name, leaf in parts.abstract_batch().items()
  }

  held = state.params, parts.abstract_constants, state.objective_state

  def residuals(held: Any, batch: Any) -> Any:
    params, constants, objective_state = held

    def keys(name: str) -> Any:
      del name
      return jax.random.key(0)

    batch = objective.prepare(batch, keys)

    def loss(params: Any) -> Any:
      params = multipliers.stop_frozen(config.optimizer, params)
      return objective.loss(params, constants, objective_state, batch, keys, 0)[
        0
      ]

    return jax.vjp(loss, params)[1]

  kept = jax.eval_shape(residuals, held, batch)
  sizes = {leaf.shape for leaf in jax.tree.leaves(held)}
  whole = sum(
    trees.num_bytes(leaf)
    for leaf in jax.tree.leaves(kept)
    if leaf.shape not in sizes
  )
  return whole // mesh_lib.batch_shards(parts.mesh)
