"""Distances between patches that attend to each other.

Figure 7, right, and section D.7 of arXiv 2010.11929: the distance in the image
that information crosses, weighted by attention. The cls token has no position
in the image: it is left out as a query and as a key, and the weights of a
query's patches are renormalised to sum to one.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def between_patches(
  grid: tuple[int, int], stride: int
) -> Float[np.ndarray, "n n"]:
  """Returns distances between the centres of patches, in image pixels.

  Args:
    grid: Number of rows and columns of patches.
    stride: Pixels from a patch to its neighbour.
  """
  places = np.stack(np.mgrid[: grid[0], : grid[1]], axis=-1).reshape(-1, 2)
  apart = (places[:, None] - places[None]).astype(np.float32)
  return np.linalg.norm(apart, axis=-1) * np.float32(stride)


def mean_distance(
  maps: Float[Array | np.ndarray, "*b q k"],
  distances: Float[Array | np.ndarray, "n n"],
) -> Float[Array, "*b"]:
  """Averages over queries the distance to the patches they attend to.

  A query that attends to no patch has no distance and is left out.

  Args:
    maps: Attention, a distribution over keys for each query; the patches are
      the last n of both.
    distances: Distances between patches, in any unit.

  Returns:
    The mean distance in that unit; 0 if no query attends to a patch.
  """
  n = distances.shape[0]
  maps = jnp.asarray(maps)[..., -n:, -n:]
  weights = jnp.sum(maps, axis=-1)
  sums = jnp.einsum("...qk,qk->...q", maps, jnp.asarray(distances))
  has_weight = weights > 0
  means = jnp.where(has_weight, sums / jnp.where(has_weight, weights, 1.0), 0.0)
  return jnp.sum(means, axis=-1) / jnp.maximum(jnp.sum(has_weight, axis=-1), 1)


def uniform(distances: Float[np.ndarray, "n n"]) -> float:
  """Returns the mean distance of uniform attention."""
  return float(distances.mean())
