"""Few-shot linear accuracy on frozen features ([P] 4.1 and 4.4, [BV]).

Every seed draws its own support sets from the training split; accuracy is
measured on all of the test split.
"""

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, ridge
from vit_jax.evaluators.feature_evaluator import FeatureEvaluator, open_datasets
from vit_jax.evaluators.features import Examples
from vit_jax.evaluators.shots import (
  ExamplesError,
  class_permutations,
  held_out_set,
  require_classes,
  require_shots,
  support_set,
)
from vit_jax.evaluators.split import Split

_logger = logging.getLogger(__name__)


def linear_fewshot_accuracy(
  train_features: ArrayLike,
  train_labels: ArrayLike,
  test_features: ArrayLike,
  test_labels: ArrayLike,
  *,
  num_classes: int,
  shots: int,
  l2: float = 2.0**10,
  seed: int = 0,
) -> float:
  """Computes the accuracy of a ridge classifier fitted to a few examples.

  Args:
    train_features: Features [n, d] from which the support set is drawn.
    train_labels: Their classes [n], in 0..num_classes-1.
    test_features: Features [m, d].
    test_labels: Their classes [m].
    num_classes: Number of classes; all must be among the training labels.
    shots: Examples per class in the support set. With the same seed, fewer
      shots are a subset of more.
    l2: Regularisation strength, positive.
    seed: Seed of the draw.

  Returns:
    The fraction of the test examples classified correctly.

  Raises:
    ValueError: A class has fewer than `shots` examples (the message names it),
      the arrays do not match, or `l2` is not positive and finite.
  """
  train = _checked(train_features, train_labels, "train")
  test = _checked(test_features, test_labels, "test")
  if train.features.shape[1] != test.features.shape[1]:
    raise ValueError(
      f"train_features have {train.features.shape[1]} columns and"
      f" test_features {test.features.shape[1]}; they must have as many."
    )
  if shots < 1:
    raise ValueError(f"shots = {shots} must be at least 1.")
  if not 0 < l2 < math.inf:
    raise ValueError(f"l2 = {l2} must be positive and finite.")
  return seed_accuracies(
    train, test, num_classes=num_classes, shots=(shots,), l2=l2, seed=seed
  )[f"{shots}shot"]


def seed_accuracies(
  train: Examples,
  test: Examples,
  *,
  num_classes: int,
  shots: Sequence[int],
  l2: float,
  l2_sweep: Sequence[float] = (),
  seed: int,
  class_names: Sequence[str] | None = None,
) -> dict[str, float]:
  """Computes `<k>shot` and, with a sweep, `<k>shot_l2_swept` for one draw.

  The sweep's l2 is the most accurate one on held-out examples of the training
  split: up to max(shots) per class that are in no support set. The test split
  is not used for this choice.

  Raises:
    ExamplesError: A class has too few examples, none is left to hold out, or a
      label is not a class.
  """
  require_classes(train.labels, test.labels, num_classes=num_classes)
  require_shots(
    train.labels,
    num_classes=num_classes,
    shots=max(shots),
    class_names=class_names,
  )
  permutations = class_permutations(
    train.labels, num_classes=num_classes, seed=seed
  )
  held_out = train.rows(held_out_set(permutations, max(shots)))
  if l2_sweep and not len(held_out.labels):
    raise ExamplesError(
      f"No training example is left after {max(shots)} shots to choose the l2"
      " on; use fewer shots, a larger training split or no l2_sweep."
    )
  accuracies = {}
  for count in shots:
    drawn = train.rows(support_set(permutations, count))
    factors = ridge.factorize(
      drawn.features, drawn.labels, num_classes=num_classes
    )
    accuracies[f"{count}shot"] = factors.accuracy(
      test.features, test.labels, l2=l2
    )
    if l2_sweep:
      chosen = ridge.choose_l2(
        factors, held_out.features, held_out.labels, candidates=l2_sweep
      )
      _logger.info("%d shots, seed %d: l2 = %g chosen.", count, seed, chosen)
      accuracies[f"{count}shot_l2_swept"] = factors.accuracy(
        test.features, test.labels, l2=chosen
      )
  return accuracies


def _checked(features: ArrayLike, labels: ArrayLike, split: str) -> Examples:
  features = np.asarray(features, np.float32)
  labels = np.asarray(labels)
  if features.ndim != 2 or labels.shape != features.shape[:1]:
    raise ValueError(
      f"{split}_features of shape {features.shape} and {split}_labels of shape"
      f" {labels.shape} must be [n, d] and [n]."
    )
  if not len(labels):
    raise ValueError(f"{split}_features are empty.")
  if not np.isfinite(features).all():
    raise ValueError(f"{split}_features hold NaN or infinite values.")
  if not np.issubdtype(labels.dtype, np.integer):
    raise ValueError(
      f"{split}_labels must be integers; they are {labels.dtype}."
    )
  return Examples(features, labels)


def build(
  name: str, config: schema.FewshotEval, context: contract.Context
) -> FeatureEvaluator:
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: The data is missing, has several labels per image, or has fewer
      examples than the shots need, in total or for a class.
  """
  datasets = open_datasets(name, config, context)
  for dataset_name, (train, _) in datasets.items():
    wanted = max(config.shots) * train.num_classes
    if train.num_examples < wanted:
      raise UserError(
        f"{train.key}.train_split ="
        f" {config.datasets[dataset_name].train_split!r} has"
        f" {train.num_examples} examples; {max(config.shots)} shots of"
        f" {train.num_classes} classes need {wanted}. Ask for fewer in"
        f" config.evals.{name}.shots."
      )
    # Raised now if it is known, rather than in the middle of a run.
    labels = None
    if not train.preprocess.renumbers:
      labels = train.source.known_labels()
    if labels is None:
      continue
    try:
      require_shots(
        labels[labels >= 0],
        num_classes=train.num_classes,
        shots=max(config.shots),
        class_names=train.class_names,
      )
    except ExamplesError as error:
      raise UserError(
        f"{train.key}: {error} Ask for fewer in config.evals.{name}.shots."
      ) from None
  return evaluator(config, datasets, context)


def evaluator(
  config: schema.FewshotEval,
  datasets: Mapping[str, tuple[Split, Split]],
  context: contract.Context,
) -> FeatureEvaluator:
  """Builds the mean and deviation of accuracies over seeds 0, 1, ....

  The metrics are `fewshot/<dataset>/<k>shot` and `..._std` and, with a sweep,
  also `<k>shot_l2_swept` and `..._std`. The standard deviation is that of a
  sample (n - 1), and 0 for a single seed.
  """

  def measure(train: Examples, test: Examples, split: Split):
    draws = []
    for seed in range(config.num_seeds):
      draws.append(
        seed_accuracies(
          train,
          test,
          num_classes=split.num_classes,
          shots=config.shots,
          l2=config.l2,
          l2_sweep=config.l2_sweep,
          seed=seed,
          class_names=split.class_names,
        )
      )
      context.heartbeat()
    metrics = {}
    for metric in draws[0]:
      values = np.array([draw[metric] for draw in draws])
      std = values.std(ddof=1) if len(values) > 1 else 0.0
      metrics[metric] = float(values.mean())
      metrics[f"{metric}_std"] = float(std)
    return metrics

  return FeatureEvaluator(config, datasets, context, measure)
