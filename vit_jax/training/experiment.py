"""The parts of a run that follow from config and data: nothing is read here.

`train`, `evaluate`, `--dry_run` and `benchmark step` all build them here, so
they speak of the same step.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import optax
from jax.sharding import Mesh

from vit_jax import durations
from vit_jax.checkpoint import store
from vit_jax.config import schema
from vit_jax.data import exclusion, pipeline, sources, spec
from vit_jax.data.sources import Source
from vit_jax.errors import UserError
from vit_jax.objectives import build as objectives_build
from vit_jax.objectives.contract import Objective
from vit_jax.optim import build as optim_build
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.training import state as state_lib
from vit_jax.training import step as step_lib


@dataclasses.dataclass(frozen=True)
class DataFacts:
  """What must be known of the training data before anything is built.

  Attributes:
    num_classes: classes of the head.
    max_labels: labels per image; 1: scalar labels.
    num_examples: examples in an epoch; None if not known.
    fingerprint: identifies the data's content.
    class_names: of the classes, if known.
  """

  num_classes: int
  max_labels: int
  num_examples: int | None
  fingerprint: str
  class_names: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A run ready to start; `abstract_state` carries shardings."""

  config: schema.Config
  facts: DataFacts
  mesh: Mesh
  total_steps: int
  objective: Objective
  tx: optax.GradientTransformation
  schedule: Callable[[Any], Any]
  abstract_state: state_lib.TrainState
  shardings: state_lib.TrainState
  train_step: Callable[..., Any]
  _init: Callable[[], state_lib.TrainState]

  def init_state(self) -> state_lib.TrainState:
    """The state at step 0, made on its shardings."""
    return jax.jit(self._init, out_shardings=self.shardings)()

  def compile(
    self, options: Mapping[str, str] | None = None
  ) -> Callable[..., Any]:
    """The train step, compiled for its shapes.

    Args:
      options: of the compiler.

    Raises:
      UserError: if it does not fit into the device's memory.
    """
    with memory_explained(self.config):
      lowered = self.train_step.lower(
        self.abstract_state, self.abstract_batch()
      )
      return lowered.compile(compiler_options=dict(options or {}))

  def train_batches(
    self,
    source: Source,
    first_example: int,
    bad_examples: Sequence[int] = (),
  ) -> pipeline.TrainBatches:
    """The global batches from a position in the stream of examples on.

    Args:
      source: the training data.
      first_example: the position.
      bad_examples: examples that were found before it to be unreadable.

    Raises:
      UserError: if the preprocessing does not suit the source.
    """
    config = self.config
    return pipeline.TrainBatches(
      source,
      preprocess=config.train.preprocess,
      image_size=config.model.image_size,
      batch_size=config.train.batch_size,
      seed=config.seed,
      shuffle_block=config.train.shuffle_block,
      first_example=first_example,
      mesh=self.mesh,
      prefetch_batches=config.train.prefetch_batches,
      max_bad_examples=config.train.max_bad_examples,
      bad_examples=bad_examples,
    )

  @property
  def flops_per_step(self) -> int:
    """Model FLOPs of an update: 3 x forward, 2 a multiply-add."""
    forward = objectives_build.forward_flops(
      self.config, num_classes=self.facts.num_classes
    )
    return 3 * forward * self.config.train.batch_size

  def steps(self, duration: int | str | None) -> int | None:
    """A duration of the config in steps; None stays None."""
    if duration is None:
      return None
    return durations.parse(duration).to_steps(
      batch_size=self.config.train.batch_size,
      num_examples=self.facts.num_examples,
    )

  def abstract_batch(self) -> dict[str, jax.ShapeDtypeStruct]:
    """The global batch as it reaches the step, with its sharding."""
    sharding = mesh_lib.batch_sharding(self.mesh)
    return {
      name: jax.ShapeDtypeStruct(spec.shape, spec.dtype, sharding=sharding)
      for name, spec in self.objective.batch_spec.items()
    }


def open_data(config: schema.Config) -> Source:
  """Opens the training data, without the examples that are to be left out.

  Raises:
    UserError: if they are not there, or the list of examples is not theirs.
  """
  source = sources.open_source(
    config.train.dataset,
    config.train.split,
    data_dir=config.data_dir,
    image_key=config.train.image_key,
    label_key=config.train.label_key,
    max_bad_examples=config.train.max_bad_examples,
  )
  if config.train.exclude is None:
    return source
  return exclusion.without(
    source, config.train.exclude, key="config.train.exclude"
  )


def facts(config: schema.Config, source: Source) -> DataFacts:
  """What the opened training data say, after the label ops.

  Raises:
    UserError: if `config.model.num_classes` is less than the data's.
  """
  preprocess = spec.parse(
    config.train.preprocess, image_size=config.model.image_size
  )
  num_classes, max_labels = preprocess.label_space(
    source.num_classes, source.max_labels
  )
  wanted = config.model.num_classes
  if wanted is not None and wanted < num_classes:
    raise UserError(
      f"config.model.num_classes = {wanted} is less than the {num_classes}"
      f" classes of {config.train.dataset}; leave it unset to take the"
      " dataset's."
    )
  return DataFacts(
    num_classes=wanted or num_classes,
    max_labels=max_labels,
    num_examples=source.num_examples,
    fingerprint=source.fingerprint,
    class_names=None if preprocess.renumbers else source.class_names,
  )


def facts_of_config(
  config: schema.Config,
) -> tuple[DataFacts, UserError | None]:
  """The facts, from the config alone where the training data are not here.

  Returns:
    The facts, and what is missing, if anything is.

  Raises:
    UserError: if the data are missing and the config does not say how many
      classes and steps there are.
  """
  try:
    return facts(config, open_data(config)), None
  except UserError as missing:
    if config.model.num_classes is None or config.total_steps is None:
      raise
    preprocess = spec.parse(
      config.train.preprocess, image_size=config.model.image_size
    )
    num_classes, max_labels = preprocess.label_space(
      config.model.num_classes, 1
    )
    from_config = DataFacts(
      num_classes=num_classes,
      max_labels=max_labels,
      num_examples=None,
      fingerprint="",
    )
    return from_config, missing


def build(
  config: schema.Config, facts: DataFacts, mesh: Mesh | None = None
) -> Experiment:
  """Builds all parts from shapes alone.

  Args:
    config: the experiment.
    facts: of the training data.
    mesh: None: over all devices, as `config.mesh` says.

  Raises:
    UserError: if batch, mesh, rules or lengths do not fit.
  """
  mesh = mesh_lib.create_mesh(config.mesh) if mesh is None else mesh
  mesh_lib.check_batch(config.train, mesh_lib.batch_shards(mesh))
  total_steps = count_steps(config, facts.num_examples)
  objective = objectives_build.build(
    config, num_classes=facts.num_classes, max_labels=facts.max_labels
  )
  objective = dataclasses.replace(
    objective,
    loss=activations.on(mesh, objective.loss),
    outputs=activations.on(mesh, objective.outputs),
  )
  key = jax.eval_shape(lambda: jax.random.key(0))
  abstract_params, _ = jax.eval_shape(objective.init, key)
  tx, schedule = optim_build.build(
    config,
    params=abstract_params,
    total_steps=total_steps,
    batch_size=config.train.batch_size,
    num_examples=facts.num_examples,
  )
  init = state_lib.initialiser(config, objective, tx)
  abstract_state = jax.eval_shape(init)
  shardings = state_lib.state_shardings(abstract_state, mesh, config.mesh)
  return Experiment(
    config=config,
    facts=facts,
    mesh=mesh,
    total_steps=total_steps,
    objective=objective,
    tx=tx,
    schedule=schedule,
    abstract_state=store.with_shardings(abstract_state, shardings),
    shardings=shardings,
    train_step=step_lib.build_train_step(
      config, objective, tx, schedule, mesh, shardings
    ),
    _init=init,
  )


@contextlib.contextmanager
def memory_explained(config: schema.Config) -> Iterator[None]:
  """Turns a device's running out of memory into a UserError."""
  try:
    yield
  except jax.errors.JaxRuntimeError as error:
    if "RESOURCE_EXHAUSTED" not in str(error):
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
  """Length of the run in steps.

  Raises:
    UserError: if it is given in epochs and the data's size is not known, or
      comes to less than one step.
  """
  if config.total_steps is not None:
    return config.total_steps
  if num_examples is None:
    raise UserError(
      f"config.total_epochs = {config.total_epochs:g} needs the dataset's"
      " size, which is not known; set config.total_steps."
    )
  steps = round(config.total_epochs * num_examples / config.train.batch_size)
  if steps < 1:
    raise UserError(
      f"config.total_epochs = {config.total_epochs:g} over {num_examples}"
      f" examples is less than one batch of config.train.batch_size ="
      f" {config.train.batch_size}; lower the batch or train longer."
    )
  return steps
