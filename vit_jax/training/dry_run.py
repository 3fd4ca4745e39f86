"""Description of a run that is not started."""

import math
from typing import Any

import jax
from clu import parameter_overview

from vit_jax import registry, trees
from vit_jax.config import resolve, schema
from vit_jax.data import facts
from vit_jax.optim import multipliers
from vit_jax.pretrained import fitting, reading
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules, table
from vit_jax.training import evaluation, experiment


def describe(config: schema.Config) -> str:
  """Describes config, parameters, sharding, batch and memory.

  The data may be missing if the config gives the numbers of classes and
  steps, or the dataset is a well-known one. Where they are here, those of the
  evaluators must be too.

  Raises:
    UserError: Anything that would keep the run from starting.
  """
  found, missing = facts.find(config)
  parts = experiment.build(config, found)
  if not missing:
    evaluation.build_evaluators(parts)
  state = parts.abstract_state
  sections = [
    ("Config", resolve.dump(config)),
    (
      "Parameters",
      parameter_overview.get_parameter_overview(
        state.params, include_stats=False
      ),
    ),
    (
      f"Sharding over {dict(parts.mesh.shape)}",
      table.table(
        state.params,
        rules.placements(
          state.params,
          parts.mesh,
          config.mesh.rules,
          registry.FAMILIES.get(config.model.name).sharding_rules,
        ),
      ),
    ),
    ("Batch", _batch_table(parts)),
    ("Estimated memory of a device", _memory_table(parts)),
    (
      "Run",
      f"{parts.total_steps} steps, {parts.flops_per_step:.4g} model FLOPs each",
    ),
  ]
  if config.init_from is not None:
    sections.append(("Start", _start(parts)))
  if missing:
    sections.append(("Notes", f"The data are not here. {missing}"))
  return "\n\n".join(f"== {title} ==\n{text}" for title, text in sections)


def _start(parts: experiment.Experiment) -> str:
  """Describes what the run takes over from `init_from`."""
  config = parts.config
  fitted = fitting.fit(
    parts.abstract_state.params,
    reading.read(config.init_from),
    config.model,
    config.init_without,
    config.allow_change,
    config.init_classes,
    config.init_part,
  )
  given = trees.num_elements(fitted.params)
  total = trees.num_elements(parts.abstract_state.params)
  line = f"{given:,} of {total:,} parameters are those of {config.init_from}."
  return "\n".join([line, *fitted.notes])


def _batch_table(parts: experiment.Experiment) -> str:
  num_shards = mesh_lib.batch_shards(parts.mesh)
  return "\n".join(
    f"{name}: {leaf.dtype} {leaf.shape}, {leaf.shape[0] // num_shards} examples"
    " on each device"
    for name, leaf in parts.abstract_batch().items()
  )


def _memory_table(parts: experiment.Experiment) -> str:
  rows = {name: size for name, size in memory(parts).items() if size}
  rows["total"] = sum(rows.values())
  width = max(map(len, rows))
  return "\n".join(
    f"{name:{width}}  {rules.format_bytes(size):>10}"
    for name, size in rows.items()
  )


def memory(parts: experiment.Experiment) -> dict[str, int]:
  """Bytes on one device, by what they are for."""
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


def activation_bytes(parts: experiment.Experiment) -> int:
  """Bytes of a micro-batch's residuals on one device, before XLA fuses any.

  Counts what the backward pass would hold if nothing were fused away, and
  nothing split over the tensor axis: an upper bound of what the compiled step
  needs.
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
