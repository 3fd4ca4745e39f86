"""Clipping of gradients to a norm."""

import jax
import jax.numpy as jnp
import optax

from vit_jax.config import schema
from vit_jax.optim import encoder_blocks

# Added to the norm of a parameter. dino's utils.clip_gradients
_EPSILON = 1e-6


def clip(optimizer: schema.Optimizer) -> optax.GradientTransformation | None:
  """The clipping that a config asks for; None: there is none."""
  norm = optimizer.grad_clip_norm
  if norm is None:
    return None
  if optimizer.grad_clip == "global":
    return optax.clip_by_global_norm(norm)
  return encoder_blocks.per_layer(_clip_each(norm))


def _clip_each(largest: float) -> optax.GradientTransformation:
  """Scales each array down to a norm of at most `largest`."""

  def clipped(gradient):
    norm = jnp.linalg.norm(gradient.astype(jnp.float32))
    factor = jnp.minimum(1.0, largest / (norm + _EPSILON))
    return (gradient * factor).astype(gradient.dtype)

  def update(updates, params=None):
    del params
    return jax.tree.map(clipped, updates)

  return optax.stateless(update)
