"""Factors for the learning rate and weight decay of individual parameters."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
import optax

from vit_jax import trees
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.optim import encoder_blocks

# `optimizer.freeze`: names for regexes that would be awkward to type.
_FREEZE = {"backbone": r"(?!head(_dist)?/).*"}

Factors = dict[str, float | np.ndarray]


# Layer of a parameter, like `vit_jax.models.family.Family.layer_of` of a
# network.
LayerOf = Callable[[str], int | None]


def factors(
  optimizer: schema.Optimizer, params: Any, layer_of: LayerOf | None = None
) -> Factors:
  """Returns path -> factor of that parameter's learning rate.

  `lr_multipliers` and `layer_decay` are multiplied. The first regex of the
  former that matches the whole path applies. Parameters that `freeze` matches
  have factor 0. The factor is a number, or an array that broadcasts over layers
  stacked by scan_layers.

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
  result = {}
  rules = _rules(optimizer)
  if optimizer.layer_decay is not None:
    depth = 0
    if layer_of is not None:
      layers = (_layers(path, leaf, layer_of) for path, leaf in leaves)
      depth = 1 + max(
        (n for of in layers for n in of if n is not None), default=-1
      )
    if not depth:
      raise UserError(
        f"config.optimizer.layer_decay = {optimizer.layer_decay:g} needs a"
        " model with encoder blocks, and this one has none; leave it None."
      )
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
  """Returns path -> factor of that parameter's weight decay.

  Parameters that `decay_mask` does not match have factor 0. For the others the
  first regex of `decay_multipliers` that matches the whole path applies.

  Raises:
    UserError: A regex matches no parameter, or one of `decay_multipliers`
      matches none that decays.
  """
  check_regexes("decay_mask", optimizer.decay_mask, paths)
  decayed = {
    path
    for path in paths
    if any(re.fullmatch(regex, path) for regex in optimizer.decay_mask)
  }
  rules = optimizer.decay_multipliers
  check_regexes("decay_multipliers", [regex for regex, _ in rules], paths)
  for regex, factor in rules:
    if factor and not any(re.fullmatch(regex, path) for path in decayed):
      raise UserError(
        f"config.optimizer.decay_multipliers: {regex!r} matches no parameter"
        " that decays; let config.optimizer.decay_mask match it too."
      )
  return {
    path: _first(rules, path) if path in decayed else 0.0 for path in paths
  }


def freeze_regex(optimizer: schema.Optimizer) -> tuple[str, ...]:
  """Returns the regex for `optimizer.freeze`, if it is set."""
  freeze = optimizer.freeze
  return () if freeze is None else (_FREEZE.get(freeze, freeze),)


def _rules(optimizer: schema.Optimizer) -> list[tuple[str, float]]:
  """Returns regexes and factors of frozen parameters, then `lr_multipliers`."""
  frozen_rules = [(regex, 0.0) for regex in freeze_regex(optimizer)]
  return [*frozen_rules, *optimizer.lr_multipliers]


def freezes(optimizer: schema.Optimizer, paths: Iterable[str]) -> bool:
  """Returns True if the rates of all these parameters have factor 0."""
  rules = _rules(optimizer)
  return all(_first(rules, path) == 0 for path in paths)


def freezes_backbone(optimizer: schema.Optimizer, paths: Iterable[str]) -> bool:
  """Returns True if only the heads of a network are trained."""
  backbone = re.compile(_FREEZE["backbone"])
  return freezes(optimizer, filter(backbone.fullmatch, paths))


def frozen(scales: Factors) -> set[str]:
  """Returns the paths of the parameters with a factor of 0."""
  return {path for path, factor in scales.items() if np.all(factor == 0)}


def frozen_paths(optimizer: schema.Optimizer, params: Any) -> set[str]:
  """Returns the paths of the parameters that an optimizer does not change.

  Args:
    optimizer: The config's section.
    params: Arrays or their shapes.
  """
  undecayed = optimizer.model_copy(update={"layer_decay": None})
  return frozen(factors(undecayed, params))


def stop_frozen(optimizer: schema.Optimizer, params: Any) -> Any:
  """Returns the parameters with frozen ones as constants.

  A loss of the result has zero gradients for frozen ones, which XLA does not
  compute.
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
  """Returns the factor of the first regex matching the whole path, else 1."""
  return next(
    (factor for regex, factor in rules if re.fullmatch(regex, path)), 1.0
  )


def _layers(path: str, leaf: Any, layer_of: LayerOf) -> list[int | None]:
  """Returns the layer of a parameter, or all layers stacked in it."""
  if encoder_blocks.is_stacked(path):
    paths = (encoder_blocks.of_layer(path, n) for n in range(leaf.shape[0]))
    return [layer_of(one) for one in paths]
  return [layer_of(path)]


def _layers_above(
  path: str, leaf: Any, depth: int, layer_of: LayerOf
) -> float | np.ndarray:
  """Returns depth - l: layers count from 0, embeddings -1, the head depth."""
  above = [
    0.0 if layer is None else float(depth - layer)
    for layer in _layers(path, leaf, layer_of)
  ]
  if encoder_blocks.is_stacked(path):
    stacked = np.asarray(above, np.float32)
    return stacked.reshape(-1, *(1,) * (len(leaf.shape) - 1))
  return above[0]
