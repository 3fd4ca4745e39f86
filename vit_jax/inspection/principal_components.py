"""The directions along which vectors vary most."""

import dataclasses

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True)
class Components:
  """Principal components of a set of vectors, largest first.

  Attributes:
    mean: Mean of the vectors.
    directions: Orthonormal rows; the entry with the largest magnitude is
      positive, as the sign is arbitrary.
    deviations: Standard deviation of the vectors along each direction.
    shares: Fraction of the total variance along each direction, in [0, 1].
  """

  mean: Float[np.ndarray, " d"]
  directions: Float[np.ndarray, "k d"]
  deviations: Float[np.ndarray, " k"]
  shares: Float[np.ndarray, " k"]

  def project(self, rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m k"]:
    """Returns coordinates of vectors along the directions, from the mean."""
    return (rows - self.mean) @ self.directions.T


def find(rows: Float[np.ndarray, "m d"], count: int) -> Components:
  """Finds the first components of m vectors.

  They are eigenvectors of the smaller of the two Gram matrices, so m or d may
  be large, but not both.

  Args:
    rows: Vectors of finite numbers.
    count: Number of components; at most min(m, d) are returned.
  """
  num_rows, width = rows.shape
  mean = rows.mean(axis=0)
  centred = rows - mean
  is_tall = num_rows >= width
  gram = centred.T @ centred if is_tall else centred @ centred.T
  values, vectors = np.linalg.eigh(gram.astype(np.float64))
  # In ascending order; rounding may have made a zero negative.
  values = np.maximum(values[::-1], 0)
  vectors = vectors[:, ::-1][:, :count]
  directions = vectors.T if is_tall else vectors.T @ centred
  lengths = np.linalg.norm(directions, axis=1, keepdims=True)
  directions = directions / np.where(lengths > 0, lengths, 1)
  largest = np.argmax(np.abs(directions), axis=1)[:, None]
  signs = np.sign(np.take_along_axis(directions, largest, axis=1))
  values_wanted = values[: len(directions)]
  return Components(
    mean=mean,
    directions=directions * np.where(signs == 0, 1, signs),
    deviations=np.sqrt(values_wanted / num_rows),
    shares=values_wanted / max(values.sum(), np.finfo(np.float64).tiny),
  )
