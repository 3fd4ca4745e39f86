"""A network's parameters from a checkpoint's: what fits, put in place."""

import logging
from collections.abc import Sequence

import jax
from jaxtyping import PyTree

from vit_jax import trees
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.weights import flat, surgery
from vit_jax.weights.contract import Weights

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
