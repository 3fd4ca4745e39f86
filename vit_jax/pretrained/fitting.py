"""A network's parameters from a checkpoint's: what fits, put in place."""

import dataclasses
import logging
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from vit_jax import trees
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.weights import flat, surgery
from vit_jax.weights.contract import Weights

# Of classes, and of masked patch prediction.
_HEADS = ("head", "patch_head", "mask_token")
_logger = logging.getLogger(__name__)


def place(wanted: PyTree, weights: Weights, model: schema.Model) -> PyTree:
  """All parameters of a network from a checkpoint, on the devices.

  Args:
    wanted: ShapeDtypeStructs or arrays with shardings.
    weights: of the same network; another size of images is allowed for.
    model: the section of the network.

  Raises:
    UserError: something does not fit, or is missing or left over.
  """
  fitted = fit(wanted, weights, model)
  if fitted.fresh or fitted.dropped:
    raise UserError(
      f"{weights.path} is not of this model: {' '.join(fitted.notes)}"
    )
  return put(wanted, fitted)


def place_body(wanted: PyTree, weights: Weights, model: schema.Model) -> PyTree:
  """As `place`, but heads, whatever the checkpoint has of them, are zeros.

  For whoever looks at features below them.
  """
  body = {name: tree for name, tree in wanted.items() if name not in _HEADS}
  params = {k: tree for k, tree in weights.params.items() if k not in _HEADS}
  headless = dataclasses.replace(
    weights,
    params=params,
    model=weights.model.model_copy(update={"num_classes": None}),
  )
  zeros = jax.tree.map(
    lambda leaf: jax.device_put(
      np.zeros(leaf.shape, leaf.dtype), leaf.sharding
    ),
    {name: tree for name, tree in wanted.items() if name in _HEADS},
  )
  return {**place(body, headless, model), **zeros}


def fit(
  wanted: PyTree,
  weights: Weights,
  model: schema.Model,
  without: Sequence[str] = (),
) -> surgery.Fitted:
  """What a network takes over from a checkpoint.

  What starts afresh, is dropped, resized or assumed is logged.

  Args:
    wanted: arrays or ShapeDtypeStructs of all its parameters.
    weights: what to start from.
    model: the section of the network.
    without: regexes of parameters that the checkpoint shall not give.

  Raises:
    UserError: a table of the parameters that do not fit.
  """
  shapes = {name: leaf.shape for name, leaf in trees.named_leaves(wanted)}
  fitted = surgery.fit(weights, model, shapes, without)
  for note in (*weights.assumed, *fitted.notes):
    _logger.warning("%s: %s", weights.path, note)
  return fitted


def put(wanted: PyTree, fitted: surgery.Fitted) -> PyTree:
  """What was fitted, on the devices; the rest is as in `wanted`.

  Args:
    wanted: newly made parameters; ShapeDtypeStructs with shardings will do
      where nothing is fresh.
    fitted: of `fit`.
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
