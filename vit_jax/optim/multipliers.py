"""Factors on the learning rate and weight decay of single parameters."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import optax

from vit_jax import trees
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.optim import encoder_blocks

# `optimizer.freeze`: names of regexes that would be awkward to type.
_FREEZE = {"backbone": r"(?!head/).*"}

Factors = dict[str, float | np.ndarray]


# The layer of a parameter, as `vit_jax.models.family.Family.layer_of` of a
# network.
LayerOf = Callable[[str], int | None]


def factors(
  optimizer: schema.Optimizer, params: Any, layer_of: LayerOf | None = None
) -> Factors:
  """Path -> factor on that parameter's rate.

  `lr_multipliers` and `layer_decay` multiply. The first regex of the former
  that matches the whole path counts. What `freeze` matches has factor 0. The
  factor is a number, or an array that broadcasts over layers stacked by
  scan_layers.

  Args:
    optimizer: The config's section.
    params: Arrays or their shapes.

  Raises:
    UserError: A regex matches no parameter, or there are no layers.
  """
  leaves = trees.named_leaves(params)
  paths = [path for path, _ in leaves]
  regexes = [regex for regex, _ in optimizer.lr_multipliers]
  check_regexes("lr_multipliers", regexes, paths)
  freeze = freeze_regex(optimizer)
  check_regexes("freeze", freeze, paths)
  if optimizer.layer_decay is not None and layer_of is None:
    raise UserError(
      f"config.optimizer.layer_decay = {optimizer.layer_decay:g} needs a"
      " model with encoder blocks, and this one has none; leave it None."
    )
  result = {}
  rules = [(regex, 0.0) for regex in freeze] + [*optimizer.lr_multipliers]
  if optimizer.layer_decay is not None:
    depth = _depth(leaves, layer_of)
  for path, leaf in leaves:
    factor = _first(rules, path)
    if optimizer.layer_decay is not None:
      layers_above = _layers_above(path, leaf, depth, layer_of)
      factor = factor * optimizer.layer_decay**layers_above
    result[path] = factor
  return result


def decay_factors(
  optimizer: schema.Optimizer, paths: Sequence[str]
) -> dict[str, float]:
  """Path -> factor on that parameter's weight decay.

  Parameters that `decay_mask` does not match have factor 0. For the others the
  first regex of `decay_multipliers` that matches the whole path counts.

  Raises:
    UserError: A regex matches no parameter.
  """
  check_regexes("decay_mask", optimizer.decay_mask, paths)
  rules = optimizer.decay_multipliers
  check_regexes("decay_multipliers", [regex for regex, _ in rules], paths)
  return {
    path: _first(rules, path)
    if any(re.fullmatch(regex, path) for regex in optimizer.decay_mask)
    else 0.0
    for path in paths
  }


def freeze_regex(optimizer: schema.Optimizer) -> tuple[str, ...]:
  """The regex that `optimizer.freeze` means, if it is set."""
  freeze = optimizer.freeze
  return () if freeze is None else (_FREEZE.get(freeze, freeze),)


def frozen(scales: Factors) -> set[str]:
  """Paths of the parameters whose factor is 0."""
  return {path for path, factor in scales.items() if np.all(factor == 0)}


def frozen_paths(optimizer: schema.Optimizer, params: Any) -> set[str]:
  """Paths of the parameters that an optimizer leaves as they are.

  Args:
    optimizer: The config's section.
    params: Arrays or their shapes.
  """
  undecayed = optimizer.model_copy(update={"layer_decay": None})
  return frozen(factors(undecayed, params))


def stop_frozen(optimizer: schema.Optimizer, params: Any) -> Any:
  """The parameters, frozen ones as constants.

  A loss of the result has zero gradients for them, which XLA does not compute.
  """
  stopped = frozen_paths(optimizer, params)
  return trees.map_named(
    lambda path, x: jax.lax.stop_gradient(x) if path in stopped else x, params
  )


def scale_by_factors(scales: Factors) -> optax.GradientTransformation:
  """Multiplies each update by its parameter's factor."""

  def scale(updates: optax.Updates, params: Any = None) -> optax.Updates:
    del params
    return trees.map_named(lambda path, update: update * scales[path], updates)

  return optax.stateless(scale)


def check_regexes(
  key: str, regexes: Sequence[str], paths: Sequence[str]
) -> None:
  """Raises UserError for regexes of config.optimizer.KEY that match nothing."""
  for regex in regexes:
    if not any(re.fullmatch(regex, path) for path in paths):
      raise UserError(
        f"config.optimizer.{key}: {regex!r} matches no parameter; regexes"
        " are matched against whole paths such as"
        f" {paths[0]!r} or {paths[-1]!r}."
      )


def _first(rules: Sequence[tuple[str, float]], path: str) -> float:
  """Factor of the first regex that matches the whole path, else 1."""
  return next(
    (factor for regex, factor in rules if re.fullmatch(regex, path)), 1.0
  )


def _depth(leaves: Sequence[tuple[str, Any]], layer_of: LayerOf) -> int:
  """Number of layers."""
  counts = (
    leaf.shape[0]
    if encoder_blocks.is_stacked(path)
    else 1 + (layer_of(path) or 0)
    for path, leaf in leaves
  )
  return max(counts)


def _layers_above(
  path: str, leaf: Any, depth: int, layer_of: LayerOf
) -> float | np.ndarray:
  """depth - l: layer l counts from 0, embeddings as -1, the head as depth."""
  if encoder_blocks.is_stacked(path):
    layers = depth - np.arange(depth, dtype=np.float32)
    return layers.reshape(-1, *(1,) * (len(leaf.shape) - 1))
  layer = layer_of(path)
  return 0.0 if layer is None else float(depth - layer)
