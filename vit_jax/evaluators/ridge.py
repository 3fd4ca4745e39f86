"""Regularised least squares in closed form, on the host.

The linear classifier of the paper's few-shot evaluation ([P] 4.1, big_vision's
`fewshot_lsr`): features are whitened by the statistics of the support set, a
large constant feature acts as the bias, targets are -1 or 1, and one
eigendecomposition serves all regularisation strengths.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

# Large, so that the bias is hardly regularised. [BV]
BIAS_FEATURE = 100.0
STD_OFFSET = 1e-5
# Rows scored at a time, which bounds memory if there are many classes.
_CHUNK_ROWS = 1024


@dataclasses.dataclass(frozen=True)
class Ridge:
  """A factorised support set; one product gives the weights for any l2.

  With X the whitened features and Y the targets, the decomposed matrix is `X^T
  X` when there are at least as many examples as features (primal) and `X X^T`
  otherwise (dual); m is its size. Everything is float64: with the bias feature,
  the largest eigenvalue exceeds 10^4 times the number of examples, and the
  error of a float32 decomposition would exceed a small l2.
  """

  mean: Float[np.ndarray, " d"]
  std: Float[np.ndarray, " d"]
  eigenvalues: Float[np.ndarray, " m"]
  left: Float[np.ndarray, "d_bias m"]
  right: Float[np.ndarray, "m classes"]

  def weights(self, l2: float) -> Float[np.ndarray, "d_bias classes"]:
    """Returns the weights on whitened features; the bias feature's is last."""
    return (self.left / (self.eigenvalues + l2)) @ self.right

  def predict(
    self, features: Float[np.ndarray, "n d"], *, l2: float
  ) -> Int[np.ndarray, " n"]:
    """Returns the top-scoring class for each row."""
    weights = self.weights(l2).astype(np.float32)
    predictions = np.empty(len(features), np.int64)
    for start in range(0, len(features), _CHUNK_ROWS):
      rows = slice(start, start + _CHUNK_ROWS)
      whitened = _whiten(features[rows], self.mean, self.std)
      scores = whitened.astype(np.float32) @ weights
      predictions[rows] = np.argmax(scores, axis=1)
    return predictions

  def accuracy(
    self,
    features: Float[np.ndarray, "n d"],
    labels: Int[np.ndarray, " n"],
    *,
    l2: float,
  ) -> float:
    """Returns the fraction of rows classified correctly."""
    return float(np.mean(self.predict(features, l2=l2) == labels))


def factorize(
  features: Float[np.ndarray, "n d"],
  labels: Int[np.ndarray, " n"],
  *,
  num_classes: int,
) -> Ridge:
  """Whitens and decomposes a support set.

  Args:
    features: The support set's features, finite.
    labels: Their classes, in 0..num_classes-1.
    num_classes: Number of columns of the targets.
  """
  # The population standard deviation, like jnp.std. [BV]
  mean = features.mean(axis=0, dtype=np.float64)
  std = features.std(axis=0, dtype=np.float64) + STD_OFFSET
  x = _whiten(features, mean, std)
  targets = 2.0 * (labels[:, None] == np.arange(num_classes)[None, :]) - 1.0
  num_examples, num_features = x.shape
  if num_examples >= num_features:
    eigenvalues, vectors = np.linalg.eigh(x.T @ x)
    left, right = vectors, vectors.T @ (x.T @ targets)
  else:
    eigenvalues, vectors = np.linalg.eigh(x @ x.T)
    left, right = x.T @ vectors, vectors.T @ targets
  # Rounding can make zero eigenvalues slightly negative.
  return Ridge(mean, std, np.maximum(eigenvalues, 0.0), left, right)


def choose_l2(
  ridge: Ridge,
  features: Float[np.ndarray, "n d"],
  labels: Int[np.ndarray, " n"],
  *,
  candidates: Sequence[float],
) -> float:
  """Returns the most accurate candidate on these rows; ties: the largest."""
  return max(
    candidates,
    key=lambda l2: (ridge.accuracy(features, labels, l2=l2), l2),
  )


def _whiten(
  features: Float[np.ndarray, "n d"],
  mean: Float[np.ndarray, " d"],
  std: Float[np.ndarray, " d"],
) -> Float[np.ndarray, "n d_bias"]:
  whitened = (features - mean[None, :]) / std[None, :]
  return np.pad(whitened, ((0, 0), (0, 1)), constant_values=BIAS_FEATURE)
