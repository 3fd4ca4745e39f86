"""Mean average precision of several labels an example."""

import numpy as np
from jaxtyping import Float, Int


def mean_average_precision(
  scores: Float[np.ndarray, "n classes"], labels: Int[np.ndarray, "n l"]
) -> float:
  """Averages over the classes that some example has.

  Of a class it is the precision among the examples scored at least as high as
  each that has the class, averaged over these; nothing is interpolated. An
  example without labels has none of the classes.

  Args:
    scores: Of the classes, comparable from example to example.
    labels: Sets of classes padded with -1; one example at least has a class.

  Returns:
    The average; NaN if a score is NaN or infinite.
  """
  if not np.isfinite(scores).all():
    return float("nan")
  # A second to import, which most runs need not spend.
  from sklearn import metrics

  truth = np.zeros(scores.shape, bool)
  rows, columns = np.nonzero(labels >= 0)
  truth[rows, labels[rows, columns]] = True
  present = truth.any(axis=0)
  return float(
    metrics.average_precision_score(truth[:, present], scores[:, present])
  )
