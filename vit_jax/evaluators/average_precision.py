"""Mean average precision for several labels per example."""

import numpy as np
from jaxtyping import Float, Int


def mean_average_precision(
  scores: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, "n l"]
) -> float:
  """Returns the average over the classes that occur in some example.

  For a class, it is the precision among the examples scored at least as high as
  each example of the class, averaged over those examples, without
  interpolation. An example without labels belongs to no class.

  Args:
    scores: Scores of the classes, comparable between examples.
    labels: Sets of classes padded with -1; at least one example has a class.

  Returns:
    The average; NaN if a score is NaN or infinite.
  """
  if not np.isfinite(scores).all():
    return float("nan")
  # Importing it takes a second, which most runs can avoid.
  from sklearn import metrics

  truth = np.zeros(scores.shape, bool)
  rows, columns = np.nonzero(labels >= 0)
  truth[rows, labels[rows, columns]] = True
  present = truth.any(axis=0)
  return float(
    metrics.average_precision_score(truth[:, present], scores[:, present])
  )
