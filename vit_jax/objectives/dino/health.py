"""Numbers that show whether self-distillation learns or collapses."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.objectives.contract import Metrics
from vit_jax.objectives.dino.prototypes import Comparison


def metrics(
  loss: Float[Array, ""], found: Comparison, taught: Float[Array, "*n d"]
) -> Metrics:
  """Health of a step; see docs/dino.md.

  Args:
    loss: The mean cross-entropy of student and teacher.
    found: What was compared.
    taught: The teacher's features.
  """
  entropy = found.entropy.mean()
  return jax.lax.stop_gradient(
    {
      "teacher_entropy": entropy,
      "kl_to_student": loss - entropy,
      "prototypes_used": effective(found.used) / len(found.used),
      "feature_rank": rank(taught.reshape(-1, taught.shape[-1])),
    }
  )


def effective(probabilities: Float[Array, " k"]) -> Float[Array, ""]:
  """Prototypes in use: the exponential of the entropy of their shares."""
  positive = probabilities > 0
  logs = jnp.log(jnp.where(positive, probabilities, 1.0))
  return jnp.exp(-jnp.sum(probabilities * logs))


def rank(rows: Float[Array, "n d"]) -> Float[Array, ""]:
  """Directions in which features vary: (sum of variances)^2 / sum of squares.

  The variances are along principal axes; their sum and that of their squares
  are known without them.
  """
  rows = rows.astype(jnp.float32)
  rows = rows - rows.mean(axis=0, keepdims=True)
  covariance = rows.T @ rows
  squares = jnp.sum(jnp.square(covariance))
  return jnp.square(jnp.trace(covariance)) / jnp.maximum(squares, 1e-30)
