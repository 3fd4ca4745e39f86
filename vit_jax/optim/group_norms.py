"""Norms of groups of arrays."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax import trees


def of(tree: Any, group: Callable[[str], str]) -> dict[str, Float[Array, ""]]:
  """Returns group -> norm of its concatenated arrays, in float32.

  Args:
    tree: Parameters, or arrays with the same structure.
    group: Function that returns the group of the array at a path.
  """
  squares: dict[str, Any] = {}
  for path, leaf in trees.named_leaves(tree):
    square = jnp.sum(jnp.square(leaf.astype(jnp.float32)))
    squares[group(path)] = squares.get(group(path), 0.0) + square
  return {name: jnp.sqrt(square) for name, square in squares.items()}
