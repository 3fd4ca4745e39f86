"""Pytrees as named leaves."""

import jax
import jax.numpy as jnp

from vit_jax import trees

TREE = {
  "b": {"kernel": jnp.zeros((2, 3)), "bias": jnp.zeros(3, jnp.bfloat16)},
  "a": (jnp.zeros(4),),
}


def test_names_are_paths_in_tree_order():
  names = [name for name, _ in trees.named_leaves(TREE)]
  assert names == ["a/0", "b/bias", "b/kernel"]
  leaves = [leaf for _, leaf in trees.named_leaves(TREE)]
  assert all(x is y for x, y in zip(leaves, jax.tree.leaves(TREE), strict=True))


def test_map_named_keeps_the_structure():
  named = trees.map_named(lambda name, leaf: name, TREE)
  assert named == {"b": {"kernel": "b/kernel", "bias": "b/bias"}, "a": ("a/0",)}


def test_elements_and_bytes_are_counted():
  assert trees.num_elements(TREE) == 13
  assert trees.num_bytes(TREE) == 6 * 4 + 3 * 2 + 4 * 4
