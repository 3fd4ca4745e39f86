"""Search for the first non-finite tensor after a bad step."""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jaxtyping import Array, PyTree

from vit_jax import trees
from vit_jax.objectives.contract import Objective


def first_bad_tensor(
  objective: Objective,
  params: PyTree,
  constants: PyTree,
  objective_state: PyTree,
  batch: Mapping[str, Any],
  rngs: Callable[[str], Array],
  step: int,
  grad_finite: np.ndarray,
  accumulate_steps: int = 1,
) -> str:
  """Names the first non-finite tensor in the order of computation.

  Checks the parameters, then runs the forward pass module by module, then
  checks the gradients' flags.

  Args:
    objective: Objective that was minimised.
    params: Parameters before the bad update.
    constants: The objective's frozen parameters.
    objective_state: The objective's state before it.
    batch: Batch of the bad step, as the pipeline returned it.
    rngs: Maps the name of a random stream to its key at that step.
    step: Number of updates before it.
    grad_finite: Bool per parameter, in tree order.
    accumulate_steps: Number of micro-batches per step, which are checked one by
      one because more of a batch may not fit in memory.
  """
  names = [name for name, _ in trees.named_leaves(params)]
  if jax.process_count() == 1:
    for name, leaf in trees.named_leaves(params):
      if not np.isfinite(np.asarray(leaf, np.float32)).all():
        return f"the parameter {name}"
    batch = objective.prepare(batch, rngs)
    num_micro = 1 if objective.accumulates else accumulate_steps
    for index in range(num_micro):
      piece, keys = batch, rngs
      if num_micro > 1:  # As in `sharding.micro_batches` and the step.
        every = slice(index, None, num_micro)
        piece = jax.tree.map(operator.itemgetter(every), batch)
        keys = functools.partial(_micro_key, rngs, index)
      bad = _first_bad_output(
        functools.partial(
          objective.loss, params, constants, objective_state, piece, keys, step
        )
      )
      if bad:
        return f"the output of {bad}"
  bad_grads = [n for n, ok in zip(names, grad_finite, strict=True) if not ok]
  if bad_grads:
    return f"the gradient of {bad_grads[0]}"
  return "the loss itself"


def _micro_key(rngs: Callable[[str], Any], index: int, name: str) -> Any:
  return jax.random.fold_in(rngs(name), index)


def _first_bad_output(forward: Callable[[], Any]) -> str | None:
  """Returns the first module, by completion, with a non-finite output."""
  found: list[str] = []

  def watch(call, args, kwargs, context):  # Linen passes arguments by position.
    output = call(*args, **kwargs)
    for leaf in jax.tree.leaves(output):
      is_value = isinstance(leaf, jax.Array) and not isinstance(
        leaf, jax.core.Tracer
      )
      if found or not is_value:
        break
      if not np.isfinite(np.asarray(leaf, np.float32)).all():
        found.append("/".join(context.module.path) or "the model")
    return output

  with nn.intercept_methods(watch):
    forward()
  return found[0] if found else None
