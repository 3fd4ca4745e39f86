"""An image tower that is not trained (LiT, arXiv 2111.07991)."""

import functools
import os
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax import trees
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.layers.normalize import Images
from vit_jax.objectives.contract import Params, Stored
from vit_jax.optim import multipliers

_TOWER = "image/"


def is_frozen(optimizer: schema.Optimizer, params: Any) -> bool:
  """Returns True if no parameter of the image tower is trained.

  Args:
    optimizer: The config's section.
    params: Parameters of the two towers, or their shapes.
  """
  frozen = multipliers.frozen_paths(optimizer, params)
  return all(
    path in frozen
    for path, _ in trees.named_leaves(params)
    if path.startswith(_TOWER)
  )


def features(
  network: nn.Module, params: Params, images: Images
) -> Float[Array, "b d"]:
  """Computes features of images in float32, without dropout or gradients.

  Args:
    network: Network of two towers.
    params: Its parameters.
    images: A batch.
  """
  # When features of its layers are requested, a Vision Transformer computes all
  # tokens of the last one. Computing a single token would round differently in
  # the step than in the program that fills the cache.
  found, _ = network.apply(
    {"params": params},
    images,
    method="image_features",
    mutable=["intermediates"],
  )
  return jax.lax.stop_gradient(found.astype(jnp.float32))


def stored(
  config: schema.Config, network: nn.Module, params: Any, feature: str
) -> Stored | None:
  """Returns the tower's outputs as a stored feature, if the config asks for it.

  Args:
    config: The experiment.
    network: Network of two towers.
    params: Shapes of its parameters.
    feature: Name of the outputs in a batch.

  Raises:
    UserError: The tower is not frozen.
  """
  directory = config.objective.cache_frozen
  if directory is None:
    return None
  if not is_frozen(config.optimizer, params):
    raise UserError(
      f"config.objective.cache_frozen = {directory!r} keeps what a frozen image"
      " tower computes, but this one is trained; set"
      " config.optimizer.freeze='image/.*', or leave it unset."
    )
  side = config.model.image_size
  images = jax.ShapeDtypeStruct((1, side, side, 3), jnp.uint8)
  compute = functools.partial(features, network)
  found = jax.eval_shape(compute, params, images)
  return Stored(
    directory=os.path.expanduser(directory),
    feature=feature,
    shape=found.shape[1:],
    compute=compute,
    params=lambda params: params[_TOWER.rstrip("/")],
    keys=config.model.model_dump_json(exclude={"text"}),
  )
