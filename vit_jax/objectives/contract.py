"""What an objective is: the only view of a task that the train step has.

The step calls, once per update and in this order,

    batch = objective.prepare(batch, rngs)              # the global batch
    loss, (aux, metrics) = objective.loss(...)          # every micro-batch
    objective_state = objective.after_update(...)       # on the new params

so whatever a method needs beyond gradients (a teacher, a centre, a queue) is
in `objective_state`, which the train state carries and checkpoints, and never
on an object.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jaxtyping import Array, Key

Rngs = Callable[[str], Key[Array, ""]]
Batch = Mapping[str, Any]
Params = Any
State = Any
Aux = Any
Metrics = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Objective:
  """A task as pure functions; all but `batch_spec` are traced under jit.

  `rngs(name)` gives the key of the random stream `name` at this step, and is
  different in each micro-batch of `loss`.

  Attributes:
    batch_spec: shape and dtype of each array of the global batch as it reaches
      the device; enough to compile the step without data.
    init: `init(rng) -> (params, objective_state)`.
    prepare: `prepare(batch, rngs) -> batch`, the random work on the whole
      global batch: flips, mixing. Every array of the result keeps the batch as
      its first dimension, so that it can be split into micro-batches.
    loss: `loss(params, objective_state, batch, rngs, step)
      -> (loss, (aux, metrics))`, on a prepared batch or a micro-batch of it.
      `loss` is a float32 scalar, the mean over the examples; `aux` and
      `metrics` are trees of floating arrays which are means over examples too,
      because the step averages all three over micro-batches. `metrics` are
      scalars, named without the `train/` prefix.
    after_update: `after_update(objective_state, params, aux, step)
      -> objective_state`, with the updated params.
    outputs: `outputs(params, images) -> {name: array}`, what evaluators see of
      the model without dropout: "pre_logits", and "logits" if it classifies.
  """

  batch_spec: dict[str, jax.ShapeDtypeStruct]
  init: Callable[[Key[Array, ""]], tuple[Params, State]]
  prepare: Callable[[Batch, Rngs], Batch]
  loss: Callable[
    [Params, State, Batch, Rngs, Any], tuple[Any, tuple[Aux, Metrics]]
  ]
  after_update: Callable[[State, Params, Aux, Any], State]
  outputs: Callable[[Params, Any], dict[str, Any]]


def keep_state(
  objective_state: State, params: Params, aux: Aux, step: Any
) -> State:
  """`after_update` of an objective whose state the updates leave alone."""
  del params, aux, step
  return objective_state
