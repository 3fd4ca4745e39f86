"""The loss that spreads features over the sphere: dinov2's koleo_loss.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_EPSILON = 1e-8


def koleo(features: Float[Array | np.ndarray, "n d"]) -> Float[Array, ""]:
  """Negative Kozachenko-Leonenko estimate of the entropy. [DINOv2] 4.

  Args:
    features: Features of any length, which are normalised to unit length here.

  Returns:
    The mean over rows of -log of the distance to the nearest neighbour, the row
    with the largest dot product; float32. It is finite for equal rows, and
    gradients flow through both.
  """
  rows = jnp.asarray(features, jnp.float32)
  squares = jnp.sum(jnp.square(rows), axis=1, keepdims=True)
  # A square root has no gradient at 0.
  rows = rows / jnp.sqrt(jnp.maximum(squares, _EPSILON**2))
  products = jnp.matmul(rows, rows.T, precision="highest")
  own = jnp.eye(len(rows), dtype=bool)
  nearest = jnp.argmax(jnp.where(own, -jnp.inf, products), axis=1)
  # Like torch's PairwiseDistance, which adds epsilon to the difference.
  difference = rows - rows[nearest] + _EPSILON
  distance = jnp.sqrt(jnp.sum(jnp.square(difference), axis=1))
  return -jnp.mean(jnp.log(distance + _EPSILON))


def by_group(features: Float[Array, "b d"], size: int) -> Float[Array, ""]:
  """Averages `koleo` over groups of consecutive rows."""
  groups = features.reshape(-1, size, features.shape[1])
  return jnp.mean(jax.vmap(koleo)(groups))
