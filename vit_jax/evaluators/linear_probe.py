"""Linear probe: logistic regression on frozen features of a whole split.

The regularisation strength with the highest accuracy on held-out examples of
the training split is chosen; the probe is then fitted to the whole training
split. The test split is not used for this choice. Under a protocol other than
'logistic' the evaluator is a `TrainedProbe`.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int

from vit_jax.config import schema
from vit_jax.evaluators import contract, probe_protocols, shots
from vit_jax.evaluators.feature_evaluator import FeatureEvaluator, open_datasets
from vit_jax.evaluators.features import Examples
from vit_jax.evaluators.logistic import Regression, Scale
from vit_jax.evaluators.split import Split
from vit_jax.evaluators.trained_probe import TrainedProbe

_logger = logging.getLogger(__name__)


def build(
  name: str, config: schema.LinearProbeEval, context: contract.Context
) -> FeatureEvaluator | TrainedProbe:
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: The data is missing or has several labels per image.
  """
  datasets = open_datasets(name, config, context)
  protocol = probe_protocols.of(config)
  if protocol is not None:
    return TrainedProbe(config, protocol, datasets, context)
  return evaluator(config, datasets, context)


def evaluator(
  config: schema.LinearProbeEval,
  datasets: Mapping[str, tuple[Split, Split]],
  context: contract.Context,
) -> FeatureEvaluator:
  """Builds `linear_probe/<dataset>/{top1,l2}`: test accuracy and chosen l2."""

  def measure(train: Examples, test: Examples, split: Split):
    result = probe(
      train,
      test,
      num_classes=split.num_classes,
      l2_sweep=config.l2_sweep,
      held_out=config.held_out,
      max_iterations=config.max_iterations,
      mesh=context.mesh,
      heartbeat=context.heartbeat,
    )
    return dataclasses.asdict(result)

  return FeatureEvaluator(config, datasets, context, measure)


@dataclasses.dataclass(frozen=True)
class Result:
  """`top1`, a fraction of the test examples, and the chosen `l2`."""

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
  """Chooses an l2, fits to all of `train` and evaluates on all of `test`.

  Args:
    train: Examples to fit.
    test: Examples to evaluate on.
    num_classes: Number of classes; some may have no examples.
    l2_sweep: Strengths to choose from; a single one is used directly.
    held_out: Fraction of each class of `train` on which to compare them.
    max_iterations: Maximum iterations of L-BFGS for each l2.
    mesh: Devices over which the examples are divided.
    heartbeat: Called every few iterations.

  Raises:
    ExamplesError: A label is not a class, or no example is left to hold out.
  """
  shots.require_classes(train.labels, test.labels, num_classes=num_classes)
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
  """Splits rows deterministically into rows to fit and rows to hold out.

  Every class contributes its share to the held-out rows, at least one example
  if it has two, and keeps at least one.

  Raises:
    ExamplesError: No class has two examples.
  """
  kept, held = [], []
  for rows in shots.class_permutations(labels, num_classes=num_classes, seed=0):
    share = min(max(round(held_out * len(rows)), 1), max(len(rows) - 1, 0))
    held.append(rows[:share])
    kept.append(rows[share:])
  if not any(map(len, held)):
    raise shots.ExamplesError(
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
  """Returns the most accurate l2 on held-out examples; ties: the largest."""
  scale = Scale.of(train.features)
  placed, held_placed = (
    regression.place(examples, scale) for examples in (train, held)
  )
  params, accuracies = None, {}
  # Stronger is faster, and each solution is close to the next.
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
