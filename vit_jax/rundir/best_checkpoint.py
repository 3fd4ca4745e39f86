"""The best checkpoint of a run, kept by `config.checkpoint.keep_best`."""

import json
import math
from collections.abc import Mapping
from typing import Any

from etils import epath

from vit_jax import records
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.config import best_metric, schema
from vit_jax.errors import UserError
from vit_jax.processes import agreement


class BestCheckpoint:
  """Keeper of the checkpoint of the best evaluation.

  All processes receive the same evaluations and keep the same step.

  Attributes:
    best: The best evaluation so far; None if there is none.

  Args:
    config: The experiment.
    store: Checkpoints of the run.

  Raises:
    UserError: No evaluator has the metric of `keep_best`.
  """

  def __init__(self, config: schema.Config, store: CheckpointStore):
    self.best: best_metric.Best | None = None
    self._named = config.checkpoint.keep_best
    self._metric = best_metric.find(config)
    self._store = store
    self._config = config
    self._measured: list[tuple[int, float | None]] = []

  @property
  def is_in_vain(self) -> bool:
    """Returns True after `config.early_stopping` evaluations of no progress."""
    return best_metric.is_in_vain(self._config, self.best)

  def find(self, metrics: epath.Path | None) -> None:
    """Finds the best evaluation before the step from which the run resumes.

    All processes must call it.

    Args:
      metrics: The `metrics.jsonl`; None on processes other than the first.
    """
    if self._metric is None:
      return
    mine: list[Any] = []
    if metrics is not None:
      mine = best_metric.measured(self._metric, records.read_lines(metrics))
    found = json.loads(agreement.gather(json.dumps(mine))[0])
    self._measured = [(step, value) for step, value in found]
    self._rank()

  def evaluated(self, step: int, metrics: Mapping[str, float]) -> bool:
    """Records an evaluation's metrics; returns True if it is the best so far.

    Raises:
      UserError: The evaluator of `keep_best` does not have the metric.
    """
    if self._metric is None:
      return False
    name = self._metric.name
    if name not in metrics:
      group = name.rpartition("/")[0] + "/"
      if any(other.startswith(group) for other in metrics):
        raise UserError(
          f"config.checkpoint.keep_best = {self._named!r} was not measured:"
          " there is no top-5 of five classes or fewer. Name another metric."
        )
      return False
    value = metrics[name]
    self._measured.append((step, value if math.isfinite(value) else None))
    self._rank()
    return self.best is not None and self.best.step == step

  def _rank(self) -> None:
    self.best = best_metric.best_of(self._metric, self._measured)
    ranked = best_metric.ranking(self._metric, self._measured)
    self._store.keep([step for step, _ in ranked])
