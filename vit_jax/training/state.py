"""The state carried from one training step to the next."""

import re
from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import optax
from jax.sharding import Mesh
from jaxtyping import PyTree

from vit_jax import rngs, trees
from vit_jax.config import schema
from vit_jax.objectives.contract import Objective
from vit_jax.optim import averaging
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules
from vit_jax.training import spikes


@flax.struct.dataclass
class TrainState:
  """The state of a run; its leaves are arrays, their shapes or shardings.

  Attributes:
    step: Number of updates done, int32 [].
    params: Trained parameters.
    opt_state: Optimizer state.
    ema_params: Average of the parameters; None if they are not averaged.
    objective_state: State that the objective updates besides the parameters.
    spikes: Running statistics of the steps; None if spikes are not detected.
  """

  step: PyTree
  params: PyTree
  opt_state: PyTree
  ema_params: PyTree
  objective_state: PyTree
  spikes: PyTree = None

  @property
  def eval_params(self) -> PyTree:
    """Returns the average of the parameters if there is one, else these."""
    return self.params if self.ema_params is None else self.ema_params


def initialiser(
  config: schema.Config,
  objective: Objective,
  tx: optax.GradientTransformation,
) -> Any:
  """Returns a function without arguments that creates the state at step 0."""

  def init() -> TrainState:
    params, objective_state = objective.init(
      rngs.stream(config.seed, "init", 0)
    )
    return TrainState(
      step=jax.numpy.zeros((), jax.numpy.int32),
      params=params,
      opt_state=tx.init(params),
      ema_params=averaging.init(params) if config.ema_decay else None,
      objective_state=objective_state,
      spikes=spikes.init() if config.faults.spike_zscore else None,
    )

  return init


def state_shardings(
  abstract_state: TrainState,
  mesh: Mesh,
  config: schema.Mesh,
  family_rules: Sequence[rules.Rule] = (),
) -> TrainState:
  """Returns the shardings of a state; moments and averages follow parameters.

  Args:
    abstract_state: ShapeDtypeStructs of the state.
    mesh: The mesh.
    config: The section with the user's rules.
    family_rules: Rules of the model's family, tried after the user's.

  Raises:
    UserError: A rule of the user does not fit.
  """
  params = abstract_state.params
  shardings = rules.param_shardings(params, mesh, config.rules, family_rules)

  def follow(tree: PyTree) -> PyTree:
    return rules.state_shardings(tree, params, shardings, mesh)

  return TrainState(
    step=mesh_lib.replicated(mesh),
    params=shardings,
    opt_state=follow(abstract_state.opt_state),
    ema_params=follow(abstract_state.ema_params),
    objective_state=follow(abstract_state.objective_state),
    spikes=follow(abstract_state.spikes),
  )


def constant_shardings(
  constants: PyTree,
  mesh: Mesh,
  config: schema.Mesh,
  family_rules: Sequence[rules.Rule] = (),
) -> PyTree:
  """Returns the shardings of frozen parameters, by the same rules.

  Args:
    constants: Tree of ShapeDtypeStructs.
    mesh: The mesh.
    config: The section with the user's rules; rules that match none of the
      constants apply only to the parameters.
    family_rules: Rules of the model's family, tried after the user's.
  """
  paths = [path for path, _ in trees.named_leaves(constants)]
  user_rules = [
    rule
    for rule in config.rules
    if any(re.fullmatch(rule[0], path) for path in paths)
  ]
  return rules.param_shardings(constants, mesh, user_rules, family_rules)
