"""Details of a classification evaluator's results beyond one number."""

import dataclasses

import numpy as np

from vit_jax.report.run import Evaluation, Predictions


@dataclasses.dataclass(frozen=True)
class Pair:
  """Images of class `truth` classified as `prediction`."""

  truth: str
  prediction: str
  num_examples: int
  share: float  # Fraction of all images of `truth`.


@dataclasses.dataclass(frozen=True)
class Bin:
  """Predictions of similar confidence."""

  num_examples: int
  confidence: float  # Mean probability of the predictions.
  accuracy: float


def counts(evaluation: Evaluation) -> dict[tuple[int, int], int] | None:
  """Counts images by (truth, prediction); None if labels are sets."""
  if evaluation.confusion is not None:
    rows, columns = np.nonzero(evaluation.confusion)
    return {
      (int(i), int(j)): int(evaluation.confusion[i, j])
      for i, j in zip(rows, columns, strict=True)
    }
  predictions = evaluation.predictions
  if predictions is None or predictions.labels.shape[1] != 1:
    return None
  pairs = np.stack([predictions.labels[:, 0], predictions.prediction], axis=1)
  unique, number = np.unique(pairs, axis=0, return_counts=True)
  return {
    (int(i), int(j)): int(n) for (i, j), n in zip(unique, number, strict=True)
  }


def _by_truth(found: dict[tuple[int, int], int]) -> dict[int, int]:
  """Counts the images of each true class."""
  totals: dict[int, int] = {}
  for (truth, _), n in found.items():
    totals[truth] = totals.get(truth, 0) + n
  return totals


def confused_pairs(evaluation: Evaluation, limit: int = 15) -> list[Pair]:
  """Returns the most common confusions, most images first."""
  found = counts(evaluation) or {}
  totals = _by_truth(found)
  wrong = sorted(
    ((n, i, j) for (i, j), n in found.items() if i != j),
    key=lambda item: (-item[0], item[1], item[2]),
  )
  return [
    Pair(evaluation.class_name(i), evaluation.class_name(j), n, n / totals[i])
    for n, i, j in wrong[:limit]
  ]


def mean_class_accuracy(evaluation: Evaluation) -> float | None:
  """Averages over classes the fraction of their images that is right.

  None if labels are sets, as an image then has no single class.
  """
  found = counts(evaluation)
  if not found:
    return None
  totals = _by_truth(found)
  shares = [found.get((k, k), 0) / total for k, total in totals.items()]
  return sum(shares) / len(shares)


def commonest_class(evaluation: Evaluation) -> tuple[str, float] | None:
  """Returns the most common class and its fraction of the images.

  None if labels are sets, or if classes are similar in size: the largest has
  less than 1.5 times the mean.
  """
  totals = _by_truth(counts(evaluation) or {})
  if not totals:
    return None
  largest = max(totals, key=lambda k: (totals[k], -k))
  share = totals[largest] / sum(totals.values())
  if share * len(totals) < 1.5:
    return None
  return evaluation.class_name(largest), share


def calibration(predictions: Predictions, num_bins: int = 10) -> list[Bin]:
  """Returns bins of equal width in confidence, without empty ones."""
  keep = np.isfinite(predictions.probability)
  probability = np.clip(predictions.probability[keep], 0, 1)
  correct = predictions.correct[keep]
  index = np.minimum((probability * num_bins).astype(int), num_bins - 1)
  return [
    Bin(
      int((index == b).sum()),
      float(probability[index == b].mean()),
      float(correct[index == b].mean()),
    )
    for b in range(num_bins)
    if (index == b).any()
  ]


def calibration_error(bins: list[Bin]) -> float:
  """Expected calibration error: mean |accuracy - confidence| over images."""
  total = sum(b.num_examples for b in bins)
  return (
    sum(b.num_examples * abs(b.accuracy - b.confidence) for b in bins) / total
  )
