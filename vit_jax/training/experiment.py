"""The parts of a run determined by its config and facts about its data.

`train`, `evaluate`, `compile`, `--dry_run` and `benchmark step` all build them
here, so that they use the same step. No data are read.
"""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import optax
from jax.sharding import Mesh

from vit_jax import durations, registry
from vit_jax.checkpoint import store
from vit_jax.config import schema
from vit_jax.data import pipeline
from vit_jax.data.facts import DataFacts
from vit_jax.data.sources import Source
from vit_jax.errors import UserError
from vit_jax.objectives import build as objectives_build
from vit_jax.objectives.contract import Objective
from vit_jax.optim import build as optim_build
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.training import attention_kernel
from vit_jax.training import state as state_lib
from vit_jax.training import step as step_lib

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A run ready to start.

  `abstract_state` carries shardings; `model.attention` is resolved.
  """

  config: schema.Config
  facts: DataFacts
  mesh: Mesh
  total_steps: int
  objective: Objective
  tx: optax.GradientTransformation
  scalars: Mapping[str, Callable[[Any], Any]]
  abstract_state: state_lib.TrainState
  shardings: state_lib.TrainState
  abstract_constants: Any
  jitted_step: Callable[..., Any]
  _init: Callable[[], state_lib.TrainState]

  def init_state(self) -> state_lib.TrainState:
    """Creates the state at step 0 with its shardings."""
    return jax.jit(self._init, out_shardings=self.shardings)()

  @functools.cached_property
  def constants(self) -> Any:
    """Returns the objective's frozen parameters, with their shardings."""
    return jax.tree.map(
      lambda array, leaf: jax.device_put(array, leaf.sharding),
      self.objective.constants.params,
      self.abstract_constants,
    )

  def train_step(
    self, state: state_lib.TrainState, batch: Mapping[str, Any]
  ) -> tuple[state_lib.TrainState, dict[str, Any]]:
    """Does one update, `(state, batch) -> (state, metrics)`; donates state."""
    return self.jitted_step(self.constants, state, batch)

  def exported(self, state: state_lib.TrainState) -> Any:
    """Returns the parameters of a state that evaluators see."""
    kind = objectives_build.kind_of(self.config)
    exported = kind.exported(state.eval_params, state.objective_state)
    if not kind.beside:
      return exported
    beside = {name: state.eval_params[name] for name in kind.beside}
    return {**exported, **beside}

  def evaluated(self, state: state_lib.TrainState) -> Any:
    """Returns `exported`, gathered if devices share only the update."""
    exported = self.exported(state)
    if self.config.mesh.fsdp != "auto":
      return exported
    return jax.tree.map(
      lambda array: jax.device_put(array, mesh_lib.gathered(array.sharding)),
      exported,
    )

  def lower(self) -> Any:
    """Lowers the train step for its shapes."""
    return self.jitted_step.lower(
      self.abstract_constants, self.abstract_state, self.abstract_batch()
    )

  def compile(
    self, options: Mapping[str, str | bool] | None = None
  ) -> Callable[..., Any]:
    """Compiles the train step: `(constants, state, batch)`.

    Args:
      options: Compiler options.

    Raises:
      UserError: The step does not fit in the device's memory.
    """
    with memory_explained(self.config):
      return self.lower().compile(compiler_options=dict(options or {}))

  def train_batches(
    self,
    source: Source,
    first_example: int,
    bad_examples: Sequence[int] = (),
  ) -> pipeline.TrainBatches:
    """Opens the global batches from a position in the example stream.

    Args:
      source: The training data.
      first_example: Row of the stream at which the first batch begins.
      bad_examples: Unreadable examples found before it.

    Raises:
      UserError: The preprocessing does not suit the source.
    """
    config = self.config
    return pipeline.TrainBatches(
      source,
      features=self.facts.features,
      batch_size=config.train.batch_size,
      seed=config.seed,
      shuffle_block=config.train.shuffle_block,
      repeats=config.train.repeats,
      balance=self.facts.balance,
      first_example=first_example,
      mesh=self.mesh,
      prefetch_batches=config.train.prefetch_batches,
      max_bad_examples=config.train.max_bad_examples,
      bad_examples=bad_examples,
    )

  @property
  def flops_per_step(self) -> int:
    """Returns the model FLOPs of an update: 3 x forward, 2 per multiply-add.

    Parts without a backward pass, or that are skipped, count as described in
    `ObjectiveKind`.
    """
    forward = objectives_build.forward_flops(
      self.config, num_classes=self.facts.num_classes
    )
    return 3 * forward * self.config.train.batch_size

  def steps(self, interval: int | str | None) -> int | None:
    """Converts an interval to steps, at least one; None stays None."""
    if interval is None:
      return None
    steps = durations.parse(interval).to_steps(
      batch_size=self.config.train.batch_size,
      num_examples=self.facts.num_examples,
      total_steps=self.total_steps,
    )
    return max(steps, 1)

  def every(self, interval: int | str | None) -> durations.EverySteps:
    """Returns the multiples of an interval of the config, and the last step."""
    return durations.EverySteps(self.steps(interval), self.total_steps)

  def abstract_batch(self) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the shapes of the step's global batch, with its sharding."""
    sharding = mesh_lib.batch_sharding(self.mesh)
    spec = self.facts.features.batch_spec(self.config.train.batch_size)
    return {
      name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
      for name, leaf in spec.items()
    }


def build(
  config: schema.Config,
  facts: DataFacts,
  mesh: Mesh | None = None,
  *,
  trains: bool = True,
) -> Experiment:
  """Builds all parts using only shapes.

  Args:
    config: The experiment.
    facts: Facts of the training data.
    mesh: The mesh; None for all devices, according to `config.mesh`.
    trains: False for evaluation only, which accepts any number of devices; the
      step then need not work.

  Raises:
    UserError: Batch, mesh, rules, lengths or attention do not fit.
  """
  mesh = mesh_lib.create_mesh(config.mesh) if mesh is None else mesh
  config = attention_kernel.settled(config, mesh.devices.flat[0])
  if trains:
    mesh_lib.check_batch(config.train, mesh_lib.batch_shards(mesh))
  total_steps = count_steps(config, facts.num_examples)
  if trains and (config.profile.first_step or 0) > total_steps:
    _logger.warning(
      "config.profile.first_step = %d is after the last step of the run, %d: no"
      " step is traced unless SIGUSR1 asks for it.",
      config.profile.first_step,
      total_steps,
    )
  objective = objectives_build.build(config, facts, total_steps)
  facts = dataclasses.replace(
    facts, features=objectives_build.features(objective, facts)
  )
  objective = dataclasses.replace(
    objective,
    loss=activations.on(mesh, objective.loss),
    outputs=activations.on(mesh, objective.outputs),
  )
  key = jax.eval_shape(lambda: jax.random.key(0))
  abstract_params, _ = jax.eval_shape(objective.init, key)
  tx, scalars = optim_build.build(
    config,
    params=abstract_params,
    total_steps=total_steps,
    batch_size=config.train.batch_size,
    num_examples=facts.num_examples,
  )
  init = state_lib.initialiser(config, objective, tx)
  abstract_state = jax.eval_shape(init)
  family_rules = registry.FAMILIES.get(config.model.name).sharding_rules
  shardings = state_lib.state_shardings(
    abstract_state, mesh, config.mesh, family_rules
  )
  constants = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype),
    objective.constants.params,
  )
  constant_shardings = state_lib.constant_shardings(
    constants, mesh, config.mesh, family_rules
  )
  return Experiment(
    config=config,
    facts=facts,
    mesh=mesh,
    total_steps=total_steps,
    objective=objective,
    tx=tx,
    scalars=scalars,
    abstract_state=store.with_shardings(abstract_state, shardings),
    shardings=shardings,
    abstract_constants=store.with_shardings(constants, constant_shardings),
    jitted_step=step_lib.build_train_step(
      config, objective, tx, scalars, mesh, shardings, constant_shardings
    ),
    _init=init,
  )


@contextlib.contextmanager
def memory_explained(config: schema.Config) -> Iterator[None]:
  """Converts an out-of-memory error of a device to a UserError."""
  try:
    yield
  except jax.errors.JaxRuntimeError as error:
    # A CPU reports some of them as internal errors.
    signs = ("RESOURCE_EXHAUSTED", "Out of memory")
    if not any(sign in str(error) for sign in signs):
      raise
    micro_batch = config.train.batch_size // config.train.accumulate_steps
    raise UserError(
      "Training does not fit into the device's memory"
      f" ({str(error).splitlines()[0][:200]}). Raise"
      f" config.train.accumulate_steps (micro-batches are of {micro_batch}"
      " examples now), set config.model.remat='full', split the parameters with"
      " config.mesh.fsdp, or lower config.train.batch_size."
    ) from None


def count_steps(config: schema.Config, num_examples: int | None) -> int:
  """Returns the length of the run in steps.

  Raises:
    UserError: The length is given in epochs and the number of examples is
      unknown, or it is less than one step or exceeds int32.
  """
  if config.total_steps is not None:
    if config.max_epochs is None or num_examples is None:
      return config.total_steps
    most = config.max_epochs * num_examples / config.train.batch_size
    return max(round(min(config.total_steps, most)), 1)
  if num_examples is None:
    raise UserError(
      f"config.total_epochs = {config.total_epochs:g} needs the dataset's"
      " size, which is not known; set config.total_steps."
    )
  steps = config.total_epochs * num_examples / config.train.batch_size
  if steps >= 2**31:
    raise UserError(
      f"config.total_epochs = {config.total_epochs:g} over {num_examples}"
      f" examples is {steps:.3g} steps, and a run has at most {2**31 - 1};"
      " train for fewer epochs."
    )
  steps = round(steps)
  if steps < 1:
    raise UserError(
      f"config.total_epochs = {config.total_epochs:g} over {num_examples}"
      f" examples is less than one batch of config.train.batch_size ="
      f" {config.train.batch_size}; lower the batch or train longer."
    )
  return steps
