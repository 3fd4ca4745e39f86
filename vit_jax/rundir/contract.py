"""The part of an experiment that a run directory needs."""

from typing import Any, Protocol, runtime_checkable

from vit_jax.config import schema


@runtime_checkable
class Run(Protocol):
  """An experiment, as seen by its run directory.

  Attributes:
    config: The resolved config.
    facts: Facts of the training data: `fingerprint`, `num_examples`,
      `class_names` and `tokenizer`.
    objective: The objective: `constants.digests`, `after_load` and
      `from_exported`.
    total_steps: Number of updates in the whole run.
    flops_per_step: Model FLOPs of an update.
    abstract_state: ShapeDtypeStructs of the train state with their shardings.
  """

  config: schema.Config
  facts: Any
  objective: Any
  total_steps: int
  flops_per_step: int
  abstract_state: Any

  def steps(self, interval: int | str | None) -> int | None:
    """Converts an interval of the config to steps; None stays None."""

  def init_state(self) -> Any:
    """Creates the train state of step 0 with its shardings."""
