"""Clipping of gradients to a norm."""

import jax
import jax.numpy as jnp
import optax

from vit_jax import trees
from vit_jax.config import schema
from vit_jax.optim import encoder_blocks, group_norms

# Added to norms, as in torch.nn.utils.clip_grad_norm_.
_EPSILON = 1e-6


def clip(optimizer: schema.Optimizer) -> optax.GradientTransformation | None:
  """Returns the clipping of a config; None for no clipping."""
  norm = optimizer.grad_clip_norm
  if norm is None:
    return None
  if optimizer.grad_clip == "global":
    return optax.clip_by_global_norm(norm)
  if optimizer.grad_clip == "module":
    return _clip_modules(norm)
  return encoder_blocks.per_layer(_clip_each(norm))


def _clip_modules(largest: float) -> optax.GradientTransformation:
  """Clips each additional head, `NAME_head`, and the rest separately."""

  def update(updates, params=None):
    del params
    factors = {
      name: jnp.minimum(1.0, largest / (norm + _EPSILON))
      for name, norm in group_norms.of(updates, _module).items()
    }
    return trees.map_named(
      lambda path, x: (x * factors[_module(path)]).astype(x.dtype), updates
    )

  return optax.stateless(update)


def _module(path: str) -> str:
  """Returns the head to which a parameter belongs; '' for all others."""
  first = path.split("/")[0]
  return first if first.endswith("_head") else ""


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
