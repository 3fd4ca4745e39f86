"""LAMB's trust ratio, of which queries, keys and values of a layer share one.

In the released networks they are one matrix (timm, `attn.qkv`).
"""

import re
from typing import Any

import jax.numpy as jnp
import optax

from vit_jax import trees

_JOINT = re.compile(r"(.*/)(?:query|key|value)(/kernel)")


def scale_by_joint_trust_ratio() -> optax.GradientTransformation:
  """Scales each update by the norm of its array over its own.

  Kernels of queries, keys and values that stand beside each other are taken as
  one array. An update is left as it is if either norm is zero, as
  `optax.scale_by_trust_ratio` leaves it.
  """

  def init(params: optax.Params) -> optax.EmptyState:
    del params
    return optax.EmptyState()

  def update(
    updates: optax.Updates, state: optax.EmptyState, params: optax.Params
  ) -> tuple[optax.Updates, optax.EmptyState]:
    of_params, of_updates = _norms(params), _norms(updates)

    def scaled(path, x):
      param, update = of_params[_matrix(path)], of_updates[_matrix(path)]
      is_zero = (param == 0) | (update == 0)
      ratio = jnp.where(is_zero, 1.0, param / jnp.where(is_zero, 1.0, update))
      return x * ratio.astype(x.dtype)

    return trees.map_named(scaled, updates), state

  return optax.GradientTransformation(init, update)


def _norms(tree: Any) -> dict[str, Any]:
  """The matrix as the released code has it -> its norm."""
  squares: dict[str, Any] = {}
  for path, leaf in trees.named_leaves(tree):
    square = jnp.sum(jnp.square(leaf.astype(jnp.float32)))
    squares[_matrix(path)] = squares.get(_matrix(path), 0.0) + square
  return {name: jnp.sqrt(square) for name, square in squares.items()}


def _matrix(path: str) -> str:
  return _JOINT.sub(r"\1qkv\2", path)
