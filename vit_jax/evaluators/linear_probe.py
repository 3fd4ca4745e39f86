"""Linear probe: logistic regression on frozen features of a whole split.

The strength of the regularisation is the one most accurate on examples held
out of the training split; the probe is then fitted to all of that. The test
split has no say in it.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, feature_datasets, shots
from vit_jax.evaluators.features import Examples, Extractor
from vit_jax.evaluators.logistic import Regression, Scale
from vit_jax.evaluators.split import Split

_logger = logging.getLogger(__name__)


def build(
  name: str, config: schema.LinearProbeEval, context: contract.Context
) -> "LinearProbe":
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: the data is not there or has several labels an image.
  """
  datasets = feature_datasets.open_datasets(name, config, context)
  return LinearProbe(config, datasets, context)


class LinearProbe:
  """Accuracy of a linear classifier of frozen features."""

  def __init__(
    self,
    config: schema.LinearProbeEval,
    datasets: Mapping[str, tuple[Split, Split]],
    context: contract.Context,
  ):
    self._config = config
    self._datasets = datasets
    self._mesh = context.mesh
    self._extract = Extractor(config.representation, context)
    self._heartbeat = context.heartbeat

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """`linear_probe/<dataset>/{top1,l2}`: on all of test, with which l2.

    Raises:
      UserError: an example has no label, or no class has two to divide.
    """
    del step  # Writes no files.
    metrics = {}
    for name, (train_split, test_split) in self._datasets.items():
      train = self._extract(state.eval_params, train_split)
      test = self._extract(state.eval_params, test_split)
      try:
        result = probe(
          train,
          test,
          num_classes=train_split.num_classes,
          l2_sweep=self._config.l2_sweep,
          held_out=self._config.held_out,
          max_iterations=self._config.max_iterations,
          mesh=self._mesh,
          heartbeat=self._heartbeat,
        )
      except ValueError as error:
        raise UserError(f"{train_split.key}: {error}") from None
      metrics[f"linear_probe/{name}/top1"] = result.top1
      metrics[f"linear_probe/{name}/l2"] = result.l2
    return metrics


@dataclasses.dataclass(frozen=True)
class Result:
  """`top1`, a fraction of the test examples, and the `l2` that was chosen."""

  top1: float
  l2: float


def probe(
  train: Examples,
  test: Examples,
  *,
  num_classes: int,
  l2_sweep: Sequence[float],
  held_out: float,
  max_iterations: int,
  mesh: Mesh,
  heartbeat: Callable[[], None],
) -> Result:
  """Chooses an l2, fits to all of `train` and measures on all of `test`.

  Args:
    train: examples to fit.
    test: examples to measure on.
    num_classes: of the labels; some may be without examples.
    l2_sweep: strengths to choose among; a single one is not compared.
    held_out: share of each class of `train` to compare them on.
    max_iterations: of L-BFGS, for each l2.
    mesh: examples are divided over its devices.
    heartbeat: called every few iterations.

  Raises:
    ValueError: a label is no class, or none is left to hold out.
  """
  for examples in (train, test):
    shots.require_classes(examples.labels, num_classes=num_classes)
  regression = Regression(num_classes, mesh=mesh, heartbeat=heartbeat)
  l2 = l2_sweep[0]
  if len(l2_sweep) > 1:
    kept, held = divide(
      train.labels, num_classes=num_classes, held_out=held_out
    )
    l2 = _choose_l2(
      regression,
      train.rows(kept),
      train.rows(held),
      l2_sweep=l2_sweep,
      max_iterations=max_iterations,
    )
  scale = Scale.of(train.features)
  params = regression.fit(
    regression.place(train, scale), l2=l2, max_iterations=max_iterations
  )
  top1 = regression.accuracy(params, regression.place(test, scale))
  return Result(top1, l2)


def divide(
  labels: Int[np.ndarray, " n"], *, num_classes: int, held_out: float
) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " held"]]:
  """Rows to fit to and rows to hold out, always the same for the same labels.

  Every class gives its share, at least one of its examples if it has two, and
  keeps at least one.

  Raises:
    ValueError: no class has two examples.
  """
  kept, held = [], []
  for rows in shots.class_permutations(labels, num_classes=num_classes, seed=0):
    share = min(max(round(held_out * len(rows)), 1), max(len(rows) - 1, 0))
    held.append(rows[:share])
    kept.append(rows[share:])
  if not any(map(len, held)):
    raise ValueError(
      "No class of the training split has two examples, so that l2 cannot be"
      " chosen on held-out ones; give l2_sweep a single value."
    )
  return np.concatenate(kept), np.concatenate(held)


def _choose_l2(
  regression: Regression,
  train: Examples,
  held: Examples,
  *,
  l2_sweep: Sequence[float],
  max_iterations: int,
) -> float:
  """The most accurate on the held-out examples; of equals, the largest."""
  scale = Scale.of(train.features)
  placed, held_placed = (
    regression.place(examples, scale) for examples in (train, held)
  )
  params, accuracies = None, {}
  # The stronger, the quicker; each solution is near the next one.
  for l2 in sorted(l2_sweep, reverse=True):
    params = regression.fit(
      placed, l2=l2, max_iterations=max_iterations, start=params
    )
    accuracies[l2] = regression.accuracy(params, held_placed)
    _logger.info("l2 = %g: %.4f on held-out examples.", l2, accuracies[l2])
  chosen = max(accuracies, key=lambda l2: (accuracies[l2], l2))
  is_alone = list(accuracies.values()).count(accuracies[chosen]) == 1
  if is_alone and chosen in (min(l2_sweep), max(l2_sweep)):
    _logger.warning(
      "The best l2, %g, is at the end of l2_sweep; a wider one may have a"
      " better.",
      chosen,
    )
  return chosen
