"""LAMB's trust ratio, shared by the queries, keys and values of a layer.

In the released networks, these are one matrix (timm, `attn.qkv`).
"""

import re

import jax.numpy as jnp
import optax

from vit_jax import trees
from vit_jax.optim import group_norms

_JOINT = re.compile(r"(.*/)(?:query|key|value)(/kernel)")


def scale_by_joint_trust_ratio() -> optax.GradientTransformation:
  """Scales each update by the norm of its array over the update's norm.

  Kernels of queries, keys and values of the same layer are treated as one
  array. An update is unchanged if either norm is zero, as in
  `optax.scale_by_trust_ratio`.
  """

  def init(params: optax.Params) -> optax.EmptyState:
    del params
    return optax.EmptyState()

  def update(
    updates: optax.Updates, state: optax.EmptyState, params: optax.Params
  ) -> tuple[optax.Updates, optax.EmptyState]:
    of_params = group_norms.of(params, _matrix)
    of_updates = group_norms.of(updates, _matrix)

    def scaled(path, x):
      param, update = of_params[_matrix(path)], of_updates[_matrix(path)]
      is_zero = (param == 0) | (update == 0)
      ratio = jnp.where(is_zero, 1.0, param / jnp.where(is_zero, 1.0, update))
      return x * ratio.astype(x.dtype)

    return trees.map_named(scaled, updates), state

  return optax.GradientTransformation(init, update)


def _matrix(path: str) -> str:
  """Returns the matrix that contains a kernel in the released networks."""
  return _JOINT.sub(r"\1qkv\2", path)
