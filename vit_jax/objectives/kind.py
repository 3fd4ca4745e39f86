"""The declaration of an objective: all that is known of it without jax.

An objective is a folder or a file of its own with such a record in it, named
in `registry.OBJECTIVES`:

  KIND = ObjectiveKind(
    section=Rotation,  # Its keys: config.objective with name = "rotation".
    build=build,
    forward_flops=lambda config, num_classes: ...,
    describe=lambda config: {"objective": "four rotations"},
    needs=("image",),
  )

`build` imports jax; the module that holds the record does not, so that a
config is checked, and a report written, without it.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vit_jax.config import schema

if TYPE_CHECKING:
  from vit_jax.data.facts import DataFacts
  from vit_jax.objectives.contract import Objective


def accept(config: schema.Config) -> None:
  """Accepts every config, as `check` and `check_files`."""
  del config


@dataclasses.dataclass(frozen=True)
class ObjectiveKind:
  """One kind of objective, as `registry.OBJECTIVES` holds it.

  Attributes:
    section: Class of `config.objective` under this name.
    build: `build(config, facts, total_steps) -> Objective`; `facts` declares
      the features of a batch and the number of classes (None: the data have no
      labels), `total_steps` is the length of the run in updates.
    forward_flops: `forward_flops(config, num_classes) -> int`, the FLOPs of
      one example's forward pass in training, two for each multiply-add; a
      third of those that have no backward pass, as a step has three of them.
    describe: `describe(config) -> {label: text}`, what a report and a model
      card say of the objective; the first entry names it.
    needs: Features that a batch must have.
    check: `check(config)` raises UserError for a config it cannot train.
    check_files: `check_files(config)` reads the files that it learns from, such
      as a frozen teacher, and raises UserError for one that it cannot; without
      touching a device.
    decomposes: `decomposes(config)` is True if the loss of a batch is the mean
      of those of its micro-batches, as `train.accumulate_steps` requires, or if
      the objective goes through them by itself (`Objective.accumulates`).
    exported: `exported(params, objective_state) -> params`, the parameters
      that evaluators, `load`, `predict` and export see, made of the parameters
      (their average, if there is one) and the objective's state, which may be
      arrays or their shapes.
    whole: `whole(params, objective_state) -> params`, those exported with what
      the network learned by, such as the heads of a teacher.
    carried: `carried(objective_state) -> {name: leaf}`, what of the state
      belongs to the parameters that are `whole`, such as a teacher's centre; a
      run that starts from a checkpoint of the same objective takes it along.
    beside: Names of parameters that evaluators see beside those `exported`,
      such as a decoder that draws reconstructions.
    activation: `activation(config)`: Name in `objectives.losses.PROBABILITIES`
      of what turns logits into probabilities; 'none' if they are numbers that
      were asked for, None of an objective whose network has no logits.
    small: Keys of the section with values of a run of seconds.
    warning: `warning(config, values) -> str | None`, a sentence about metrics
      of a step that show that training goes wrong, with what to do.
  """

  section: type[schema.Objective]
  build: "Callable[[schema.Config, DataFacts, int], Objective]"
  forward_flops: Callable[[schema.Config, int | None], int]
  describe: Callable[[schema.Config], Mapping[str, str]]
  needs: tuple[str, ...] = ("image",)
  check: Callable[[schema.Config], None] = accept
  check_files: Callable[[schema.Config], None] = accept
  decomposes: Callable[[schema.Config], bool] = lambda config: True
  exported: Callable[[Any, Any], Any] = lambda params, objective_state: params
  whole: Callable[[Any, Any], Any] = lambda params, objective_state: params
  carried: Callable[[Any], Mapping[str, Any]] = lambda objective_state: {}
  beside: tuple[str, ...] = ()
  activation: Callable[[schema.Config], str | None] = lambda config: None
  small: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  warning: Callable[[schema.Config, Mapping[str, float]], str | None] = (
    lambda config, values: None
  )
