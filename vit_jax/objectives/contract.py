"""The contract of an objective: all that the train step sees of it.

The step calls, once per update and in this order,

    batch = objective.prepare(batch, rngs)              # the global batch
    loss, (aux, metrics) = objective.loss(...)          # every micro-batch
    params = objective.constrain(...)                   # the updated params
    objective_state = objective.after_update(...)       # on the new params

and a run that starts from a parameter file calls `after_load` once.

Everything that a method changes besides the parameters (a teacher, a centre, a
queue) is in `objective_state`, which is part of the train state and its
checkpoints, and never on an object. What it only reads (a frozen teacher) is in
`constants`.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from vit_jax import trees

Rngs = Callable[[str], Key[Array, ""]]
Batch = Mapping[str, Any]
Params = Any
State = Any
Aux = Any
Metrics = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Constants:
  """Frozen parameters, which the step takes as an argument.

  They are sharded by the rules of the parameters, and neither donated nor
  saved. A checkpoint records their path and digest, so that a run does not
  resume with different ones.

  Attributes:
    params: Tree of arrays.
    digests: Path from which they were read -> digest of their content.
  """

  params: Params = dataclasses.field(default_factory=dict)
  digests: Mapping[str, str] = dataclasses.field(default_factory=dict)

  @classmethod
  def of(cls, path: str, params: Params) -> "Constants":
    """Returns constants that were read from one path."""
    return cls(params, {path: digest(params)})


def digest(params: Params) -> str:
  """Digests the names, shapes, dtypes and values of a tree of arrays."""
  total = hashlib.sha256()
  for name, leaf in sorted(trees.named_leaves(params)):
    array = np.ascontiguousarray(leaf)
    total.update(f"{name} {array.dtype} {array.shape}\n".encode())
    total.update(array.tobytes())
  return total.hexdigest()[:32]


def keep_state(
  objective_state: State, params: Params, aux: Aux, step: Any
) -> State:
  """`after_update` of an objective whose state does not change."""
  del params, aux, step
  return objective_state


def keep_loaded(objective_state: State, params: Params) -> State:
  """`after_load` of an objective whose state copies no parameters."""
  del params
  return objective_state


def train_on_exported(params: Params, objective_state: State) -> Params:
  """`from_exported` of an objective that exports what it trains."""
  del objective_state
  return params


def keep_params(params: Params) -> Params:
  """`constrain` of an objective with unconstrained parameters."""
  return params


def keep_batch(batch: Batch, rngs: Rngs) -> Batch:
  """`prepare` of an objective without random augmentation."""
  del rngs
  return batch


@dataclasses.dataclass(frozen=True)
class Stored:
  """A feature that is computed only once from each training image.

  Training batches contain it instead of their images.

  Attributes:
    directory: Directory in which it is stored.
    feature: Name of the feature.
    shape: Shape for one example; the dtype is float32.
    compute: `compute(params, images) -> [b, *shape]`, under jit.
    params: `params(params)`, the frozen parameters on which it depends.
    keys: Other dependencies, as text.
  """

  directory: str
  feature: str
  shape: tuple[int, ...]
  compute: Callable[[Params, Any], Any]
  params: Callable[[Params], Params]
  keys: str


@dataclasses.dataclass(frozen=True)
class Objective:
  """A task as pure functions that are traced under jit.

  `rngs(name)` returns the key of the random stream `name` at this step, which
  differs in each micro-batch of `loss`.

  Attributes:
    init: `init(rng) -> (params, objective_state)`.
    loss: `loss(params, constants, objective_state, batch, rngs, step)
      -> (loss, (aux, metrics))`, on a prepared batch or a micro-batch of it.
      `loss` is a float32 scalar, the mean over the examples; `aux` and
      `metrics` are trees of floating arrays which are means over examples too,
      because the step averages all three over micro-batches. `metrics` are
      scalars, named without the `train/` prefix. `step` counts the updates
      done.
    outputs: `outputs(params, batch) -> {name: array}`, the features that
      evaluators see, without dropout: "pre_logits", and "logits" of a
      classifier. `params` are those that `ObjectiveKind.exported` returns;
      `batch` holds the features of an evaluation, such as `image`.
    prepare: `prepare(batch, rngs) -> batch`, the random work on the whole
      global batch after the ops of the config: mixing, masking. Every array of
      the result keeps the examples as its first dimension, so that it can be
      split into micro-batches.
    after_update: `after_update(objective_state, params, aux, step)
      -> objective_state`, with the updated params.
    constrain: `constrain(params) -> params`, applied after each update, such as
      a bound on a temperature.
    after_load: `after_load(objective_state, params) -> objective_state`, called
      if `config.init_from` has replaced the params of `init`; a teacher that
      starts as a copy of the student is copied again.
    from_exported: `from_exported(params, objective_state) -> params`, which
      converts parameters of a file to those that are trained, such as a head
      with other units.
    constants: Frozen parameters; `loss` receives their `params`.
    accumulates: True if `loss` takes the whole batch and iterates over its
      micro-batches itself, as a loss that compares all examples must.
    stored: A feature that batches have instead of `image`; None if they have
      images.
  """

  init: Callable[[Key[Array, ""]], tuple[Params, State]]
  loss: Callable[
    [Params, Params, State, Batch, Rngs, Any], tuple[Any, tuple[Aux, Metrics]]
  ]
  outputs: Callable[[Params, Batch], dict[str, jax.Array]]
  prepare: Callable[[Batch, Rngs], Batch] = keep_batch
  after_update: Callable[[State, Params, Aux, Any], State] = keep_state
  constrain: Callable[[Params], Params] = keep_params
  after_load: Callable[[State, Params], State] = keep_loaded
  from_exported: Callable[[Params, State], Params] = train_on_exported
  constants: Constants = Constants()
  accumulates: bool = False
  stored: Stored | None = None
