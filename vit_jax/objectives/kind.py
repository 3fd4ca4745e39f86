"""The declaration of an objective, which does not require jax.

An objective is a separate folder or file that contains such a record, named in
`registry.OBJECTIVES`:

  KIND = ObjectiveKind(
    section=Rotation,  # Its keys: config.objective with name = "rotation".
    build=build,
    forward_flops=lambda config, num_classes: ...,
    describe=lambda config: {"objective": "four rotations"},
    needs=("image",),
  )

`build` imports jax; the module that contains the record does not, so that a
config can be checked, and a report written, without jax.
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
  """One kind of objective, an entry of `registry.OBJECTIVES`.

  Attributes:
    section: Class of `config.objective` under this name.
    build: `build(config, facts, total_steps) -> Objective`; `facts` declares
      the features of a batch and the number of classes (None if the data have
      no labels), `total_steps` is the length of the run in updates.
    forward_flops: `forward_flops(config, num_classes) -> int`, the FLOPs of one
      example's forward pass in training, two per multiply-add. Parts without a
      backward pass count as a third, because a step counts as three forward
      passes.
    describe: `describe(config) -> {label: text}`, the description of the
      objective in a report and a model card; the first entry names it.
    needs: Features that a batch must have.
    check: `check(config)` raises UserError for a config it cannot train.
    check_files: `check_files(config)` reads the files that it learns from, such
      as a frozen teacher, and raises UserError for one that it cannot read,
      without touching a device.
    decomposes: `decomposes(config)` is True if the loss of a batch is the mean
      of those of its micro-batches, as `train.accumulate_steps` requires, or if
      the objective iterates over them itself (`Objective.accumulates`).
    exported: `exported(params, objective_state) -> params`, the parameters
      that evaluators, `load`, `predict` and export see, made of the parameters
      (their average, if there is one) and the objective's state, which may be
      arrays or their shapes.
    whole: `whole(params, objective_state) -> params`, the exported parameters
      and those used only for training, such as the heads of a teacher.
    carried: `carried(objective_state) -> {name: leaf}`, the part of the state
      that belongs to the `whole` parameters, such as a teacher's centre; a run
      that starts from a checkpoint of the same objective takes it over.
    beside: Names of parameters that evaluators see in addition to those
      `exported`, such as a decoder that draws reconstructions.
    activation: `activation(config)`, the name in
      `objectives.losses.PROBABILITIES` of the function that turns logits into
      probabilities; 'none' if the outputs are predicted numbers, None for an
      objective whose network has no logits.
    small: Keys of the section with values for a run of a few seconds.
    warning: `warning(config, values) -> str | None`, a sentence about metrics
      of a step that show that training is going wrong, with a remedy.
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
