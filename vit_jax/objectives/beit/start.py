"""Initialisation of the released code where it differs from the ViT's."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from vit_jax.objectives import contract

_STDDEV = 0.02
_BLOCK = "encoderblock_"
# Output layers of the residual branches. modeling_pretrain.py
_OUTPUTS = (("out", "kernel"), ("Dense_1", "kernel"))


def truncated_normal(
  rng: Key[Array, ""], shape: tuple[int, ...]
) -> Float[Array, "..."]:
  """N(0, 0.02^2), truncated at one standard deviation, not two."""
  return _STDDEV * jax.random.truncated_normal(rng, -1, 1, shape)


def started(params: contract.Params, rng: Key[Array, ""]) -> contract.Params:
  """Initialises a Vision Transformer's parameters as the released code does.

  Matrices and the class token are `truncated_normal`, biases 0, and the result
  is `rescaled`.
  """
  leaves, tree = jax.tree_util.tree_flatten_with_path(params)
  rngs = jax.random.split(rng, len(leaves))

  def start(path, leaf, rng):
    names = [part.key for part in path]
    if names == ["cls"]:
      return truncated_normal(rng, leaf.shape)
    if names[-1] == "bias":
      return jnp.zeros_like(leaf)
    if names[-1] != "kernel":
      return leaf
    return truncated_normal(rng, leaf.shape)

  found = [
    start(path, leaf, one)
    for (path, leaf), one in zip(leaves, rngs, strict=True)
  ]
  return rescaled(jax.tree.unflatten(tree, found))


def rescaled(params: contract.Params) -> contract.Params:
  """Divides the last matrices of attention and MLP by sqrt(2 layer).

  Layers are counted from 1.
  """

  def divided(path, leaf):
    names = [part.key for part in path]
    is_last = tuple(names[-2:]) in _OUTPUTS
    return leaf / _divisor(names, leaf) if is_last else leaf

  return jax.tree_util.tree_map_with_path(divided, params)


def _divisor(names: list[str], leaf: Array) -> Float[Array, "..."] | float:
  """Returns sqrt(2 layer) for a matrix or for stacked layers."""
  for name in names:
    if name.startswith(_BLOCK):
      return math.sqrt(2 * (int(name.removeprefix(_BLOCK)) + 1))
  layers = jnp.arange(1, len(leaf) + 1, dtype=jnp.float32)
  return jnp.sqrt(2 * layers).reshape(-1, *[1] * (leaf.ndim - 1))
