"""The interface of evaluators, and their context."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from etils import epath
from jax.sharding import Mesh

from vit_jax.config import schema


@runtime_checkable
class EvaluatedState(Protocol):
  """The part of a train state that evaluators read."""

  @property
  def eval_params(self) -> Any:
    """Returns the parameters to evaluate: the average if there is one."""


def _no_heartbeat() -> None:
  pass


@dataclasses.dataclass(frozen=True)
class Context:
  """Context shared by all evaluators of a run.

  Attributes:
    config: Config of the run.
    outputs: `(params, batch) -> {"logits", "pre_logits"}`, traceable; an
      objective's `outputs`. A batch holds `image`, uint8 [b, h, w, c].
    mesh: Devices over which parameters and batches are sharded.
    workdir: Directory for `evaluations/`; None to write no files.
    num_classes: Number of columns of the logits; None if there are none.
    class_names: Names of the classes, if known.
    heartbeat: Called after every batch, on every process, to show the watchdog
      that a long evaluation is alive; an exception from it ends the evaluation.
  """

  config: schema.Config
  outputs: Callable[[Any, Any], dict[str, Any]]
  mesh: Mesh
  workdir: epath.Path | None
  num_classes: int | None
  class_names: Sequence[str] | None = None
  heartbeat: Callable[[], None] = _no_heartbeat


@runtime_checkable
class Evaluator(Protocol):
  """Measures a state on data that was opened when it was built."""

  def run(self, state: EvaluatedState, step: int) -> dict[str, float]:
    """Measures `step` on all processes, which all return the same metrics."""
