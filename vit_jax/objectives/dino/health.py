"""Metrics that show whether self-distillation learns or collapses."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vit_jax.objectives.contract import Metrics


def metrics(
  loss: Float[Array, ""],
  entropy: Float[Array, ""],
  used: Float[Array, " k"],
  center: Float[Array | np.ndarray, " k"] | None,
) -> Metrics:
  """Returns health metrics of a step; see docs/dino.md.

  Args:
    loss: The mean cross-entropy of student and teacher.
    entropy: The mean entropy of the teacher's probabilities.
    used: The teacher's mean probability of each prototype.
    center: Centre of the teacher; None if Sinkhorn balances the prototypes.
  """
  if center is None:
    uneven = jnp.max(jnp.abs(used * len(used) - 1))
    balance = {"marginal_deviation": uneven}
  else:
    balance = {"center_norm": jnp.linalg.norm(center)}
  return jax.lax.stop_gradient(
    {
      "teacher_entropy": entropy,
      "kl_to_student": loss - entropy,
      "prototypes_used": effective(used) / len(used),
      **balance,
    }
  )


def effective(probabilities: Float[Array, " k"]) -> Float[Array, ""]:
  """Returns the prototypes in use: the exponential of their entropy."""
  positive = probabilities > 0
  logs = jnp.log(jnp.where(positive, probabilities, 1.0))
  return jnp.exp(-jnp.sum(probabilities * logs))


def rank(features: Float[Array, "*n d"]) -> Float[Array, ""]:
  """Effective rank of features: (sum of variances)^2 / sum of squares.

  The variances are along principal axes; their sum and sum of squares can be
  computed without finding the axes.
  """
  rows = features.reshape(-1, features.shape[-1]).astype(jnp.float32)
  rows = jax.lax.stop_gradient(rows)
  rows = rows - rows.mean(axis=0, keepdims=True)
  covariance = rows.T @ rows
  squares = jnp.sum(jnp.square(covariance))
  return jnp.square(jnp.trace(covariance)) / jnp.maximum(squares, 1e-30)
