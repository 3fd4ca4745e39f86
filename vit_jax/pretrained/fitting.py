"""Fitting a checkpoint's parameters to a network and placing them."""

import dataclasses
import logging
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from vit_jax import trees
from vit_jax.checkpoint import resume
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.pretrained import function_keys, head_classes, parts
from vit_jax.weights import flat, surgery
from vit_jax.weights.contract import Weights

_HEAD = "head"
_logger = logging.getLogger(__name__)


def place(wanted: PyTree, weights: Weights, model: schema.Model) -> PyTree:
  """Places all parameters of a network from a checkpoint to evaluate it.

  Args:
    wanted: ShapeDtypeStructs or arrays with shardings.
    weights: Checkpoint of the same network; its image size may differ.
    model: Section `model` of the network.

  Raises:
    UserError: A parameter does not fit, is missing or is left over.
  """
  # An evaluation has no use for other parameters of the training.
  fitted = fit(wanted, dataclasses.replace(weights, about_beside=()), model)
  if fitted.fresh or fitted.dropped:
    raise UserError(
      f"{weights.path} is not of this model: {' '.join(fitted.notes)}"
    )
  return put(wanted, fitted)


def place_body(wanted: PyTree, weights: Weights, model: schema.Model) -> PyTree:
  """Places all parameters below the head; the head is set to zeros.

  Used to evaluate features, regardless of the checkpoint's head. Arguments and
  errors are those of `place`.
  """
  body = {name: tree for name, tree in wanted.items() if name != _HEAD}
  params = {k: tree for k, tree in weights.params.items() if k != _HEAD}
  headless = dataclasses.replace(
    weights,
    params=params,
    model=weights.model.model_copy(update={"num_classes": None}),
  )
  zeros = jax.tree.map(
    lambda leaf: jax.device_put(
      np.zeros(leaf.shape, leaf.dtype), leaf.sharding
    ),
    {name: tree for name, tree in wanted.items() if name == _HEAD},
  )
  return {**place(body, headless, model), **zeros}


def fit(
  wanted: PyTree,
  weights: Weights,
  model: schema.Model,
  without: Sequence[str] = (),
  allow_change: str = "",
  classes: str | None = None,
  part: str | None = None,
) -> surgery.Fitted:
  """Finds the parameters that a network takes from a checkpoint.

  Logs new, dropped and resized parameters and assumptions. A single network
  takes those of the image tower if the checkpoint has two towers.

  Args:
    wanted: Arrays or ShapeDtypeStructs of all parameters of the network.
    weights: Checkpoint to initialise from.
    model: Section `model` of the network.
    without: Regexes of parameters that are not taken from the checkpoint.
    allow_change: Comma-separated keys in which the networks may differ.
    classes: File listing the classes of the checkpoint's head that the new head
      starts from, as in `head_classes.select`; if None, a head with a different
      number of classes is initialised anew.
    part: Part of the network that the checkpoint provides; None for all of it.

  Raises:
    UserError: Some parameters do not fit (the message has a table), the
      checkpoint's network computes a different function of them, or `classes`
      does not fit.
  """
  shapes = {name: leaf.shape for name, leaf in trees.named_leaves(wanted)}
  if classes is not None:
    num_classes = shapes.get(f"{_HEAD}/kernel", (None,))[-1]
    weights = head_classes.select(weights, classes, num_classes)
  if part is not None:
    weights = parts.weights(weights, model, part, shapes)
  else:
    weights = parts.image_weights(weights, model)
  fitted = surgery.fit(weights, model, shapes, without, part)
  if classes is not None and f"{_HEAD}/kernel" in fitted.fresh:
    raise UserError(
      f"config.init_classes = {classes!r} has no effect, as no head is taken"
      f" from {weights.path}: {' '.join(fitted.notes)}"
      + (
        f" Leave it or config.init_without = {tuple(without)!r} unset."
        if without
        else ""
      )
    )
  function_keys.check(
    weights.path, weights.model, model, resume.allowed_keys(allow_change)
  )
  for note in (*weights.assumed, *weights.about_beside, *fitted.notes):
    _logger.warning("%s: %s", weights.path, note)
  return fitted


def put(wanted: PyTree, fitted: surgery.Fitted) -> PyTree:
  """Places fitted parameters; fresh ones keep their values in `wanted`.

  Args:
    wanted: New parameters, or ShapeDtypeStructs with shardings if none are
      fresh.
    fitted: Result of `fit`.
  """
  found = flat.flatten(fitted.params)
  return trees.map_named(
    lambda name, leaf: (
      leaf
      if name in fitted.fresh
      else jax.device_put(found[name].astype(leaf.dtype), leaf.sharding)
    ),
    wanted,
  )
