"""The initial state of a run: new, or with parameters of a checkpoint."""

import hashlib
from collections.abc import Collection
from typing import Any

import jax
import numpy as np

from vit_jax import trees
from vit_jax.pretrained import fitting, start
from vit_jax.processes import agreement
from vit_jax.rundir.contract import Run


def find(parts: Run) -> start.Start | None:
  """Reads and fits `config.init_from`; None if it is not set.

  All processes must call it.

  Raises:
    UserError: The checkpoint cannot be read, does not fit the model or the
      data, or is not the same on all processes.
  """
  state = parts.abstract_state
  found = start.find(
    parts.config, state.params, state.objective_state, parts.facts.class_names
  )
  if found is not None and jax.process_count() > 1:
    key = f"content of config.init_from = {parts.config.init_from!r}"
    agreement.check_same(_digest(found), key)
  return found


def _digest(found: start.Start) -> str:
  """Identifies all arrays that the run starts with."""
  digest = hashlib.blake2b(digest_size=8)
  trained = found.trained and found.trained.params
  for tree in (found.exported.params, trained, dict(found.state)):
    for name, leaf in trees.named_leaves(tree):
      digest.update(name.encode())
      digest.update(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8))
  return digest.hexdigest()


def make(parts: Run, found: start.Start | None) -> Any:
  """Creates the train state of step 0.

  Args:
    parts: Parts of the experiment.
    found: Result of `find`.
  """
  state = parts.init_state()
  if found is None:
    return state
  exported = fitting.put(state.params, found.exported)
  if found.trained is not None:
    params = fitting.put(state.params, found.trained)
  else:
    params = _to_train_on(parts, state, exported, found.exported.fresh)
  before = state.objective_state
  for name, leaf in found.state.items():
    leaf = jax.device_put(
      leaf.astype(before[name].dtype), before[name].sharding
    )
    before = {**before, name: leaf}
  objective_state = jax.jit(
    parts.objective.after_load,
    out_shardings=jax.tree.map(
      lambda leaf: leaf.sharding, parts.abstract_state.objective_state
    ),
  )(before, exported)
  # Copies, as the step donates its state, which must not share buffers.
  average, objective_state = jax.tree.map(
    lambda x: x.copy(), (state.ema_params and params, objective_state)
  )
  return state.replace(
    params=params, ema_params=average, objective_state=objective_state
  )


def _to_train_on(
  parts: Run, state: Any, exported: Any, fresh: Collection[str]
) -> Any:
  """Converts a file's parameters to those trained, except fresh ones."""
  converted = parts.objective.from_exported(exported, state.objective_state)
  return trees.map_named(
    lambda name, leaf, new: (
      new if name in fresh else jax.device_put(leaf, new.sharding)
    ),
    converted,
    state.params,
  )
