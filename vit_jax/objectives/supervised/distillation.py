"""Losses between the logits of a student and of a teacher, float32.

DeiT (arXiv 2012.12877), section 3, and its released `losses.py`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.objectives import losses


def hard(
  student: Float[Array, "b classes"],
  teacher: Float[Array, "b classes"],
  temperature: float,
) -> Float[Array, " b"]:
  """Computes the cross-entropy with the class that the teacher predicts."""
  del temperature
  return losses.softmax_cross_entropy(student, jnp.argmax(teacher, axis=1))


def soft(
  student: Float[Array, "b classes"],
  teacher: Float[Array, "b classes"],
  temperature: float,
) -> Float[Array, " b"]:
  """Computes the released soft loss: the paper's divided by the classes."""
  divergence = soft_batchmean(student, teacher, temperature)
  return divergence / student.shape[1]


def soft_batchmean(
  student: Float[Array, "b classes"],
  teacher: Float[Array, "b classes"],
  temperature: float,
) -> Float[Array, " b"]:
  """Computes temperature^2 KL(teacher || student) of softened probabilities."""
  ours, theirs = (
    jax.nn.log_softmax(logits.astype(jnp.float32) / temperature)
    for logits in (student, teacher)
  )
  divergence = jnp.sum(jnp.exp(theirs) * (theirs - ours), axis=1)
  return divergence * temperature**2


LOSSES = {"hard": hard, "soft": soft, "soft_batchmean": soft_batchmean}
