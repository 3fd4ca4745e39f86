"""Pytrees as flat lists of named leaves, 'a/b/kernel' -> leaf."""

import math
from collections.abc import Callable
from typing import Any

import jax


def path_name(path: tuple[Any, ...]) -> str:
  """Formats a jax key path: 'Transformer/encoderblock_0/kernel'."""
  return jax.tree_util.keystr(path, simple=True, separator="/")


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
  """Lists leaves in tree order, each with its path."""
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  return [(path_name(path), leaf) for path, leaf in leaves]


def map_named(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
  """Maps like `jax.tree.map`, with the path: fn(path, leaf, ...)."""
  return jax.tree_util.tree_map_with_path(
    lambda path, *leaves: fn(path_name(path), *leaves), tree, *rest
  )


def num_elements(tree: Any) -> int:
  """Counts the scalars in all leaves."""
  return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def num_bytes(tree: Any) -> int:
  """Counts the bytes of all leaves, unsharded."""
  return sum(
    math.prod(leaf.shape) * leaf.dtype.itemsize
    for leaf in jax.tree.leaves(tree)
  )
