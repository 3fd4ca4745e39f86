"""Layers in parameter paths, whether looped over or stacked by scan_layers.

A looped model has 'Transformer/encoderblock_3/...' for layer 3; a scanned one
has 'Transformer/encoderblock/...' once, with layers along the first axis.
"""

import re
from typing import Any

import jax
import optax

from vit_jax import trees

_BLOCK = re.compile(r"(?:.*/)?encoderblock(?:_(\d+))?(/.*)")


def is_in_block(path: str) -> bool:
  """Returns True if the parameter belongs to an encoder block."""
  return bool(_BLOCK.fullmatch(path))


def is_stacked(path: str) -> bool:
  """Returns True if the parameter's first axis is that of layers."""
  match = _BLOCK.fullmatch(path)
  return bool(match) and match.group(1) is None


def layer(path: str) -> int:
  """Returns the layer, from 0, of a parameter in an unstacked block."""
  return int(_BLOCK.fullmatch(path).group(1))


def of_layer(path: str, layer: int) -> str:
  """Returns the path of a stacked parameter's layer in a looped model."""
  start = _BLOCK.fullmatch(path).start(2)
  return f"{path[:start]}_{layer}{path[start:]}"


def depth(params: Any) -> int:
  """Returns the number of layers."""
  counts = [
    leaf.shape[0] if is_stacked(path) else layer(path) + 1
    for path, leaf in trees.named_leaves(params)
    if is_in_block(path)
  ]
  return max(counts, default=0)


def per_layer(
  tx: optax.GradientTransformation,
) -> optax.GradientTransformation:
  """Applies `tx` separately to each layer of stacked arrays.

  A transformation that reduces over arrays or depends on their shapes (a norm,
  a factored moment) then gives the same results for scanned and looped layers.

  Args:
    tx: Transformation of separate arrays, or of those of one layer; it may have
      state.
  """

  def split(tree: Any) -> optax.GradientTransformation:
    depths = trees.map_named(
      lambda path, x: str(x.shape[0]) if is_stacked(path) else "one", tree
    )
    present = set(jax.tree.leaves(depths))
    if present <= {"one"}:
      return tx
    stacked = optax.GradientTransformation(
      jax.vmap(tx.init), jax.vmap(tx.update)
    )
    return optax.partition(
      {depth: tx if depth == "one" else stacked for depth in present}, depths
    )

  def update(
    updates: optax.Updates, state: Any, params: optax.Params
  ) -> tuple[optax.Updates, Any]:
    return split(updates).update(updates, state, params)

  return optax.GradientTransformation(
    lambda params: split(params).init(params), update
  )
