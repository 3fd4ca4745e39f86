"""Joined feature maps of a network's last layers, for training a layer."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import build as models_build
from vit_jax.models.features import feature_maps

Maps = Float[Array, "b rows columns d"]


def joined_maps(
  model: schema.Model, *, blocks: int, key: str
) -> Callable[[Any, UInt8[Array, "b h w 3"]], Maps]:
  """Returns a function from parameters and images to the joined maps.

  Maps of a Vision Transformer are normalised by its last norm. Maps of stages,
  which decrease in size, are interpolated to the largest.

  Args:
    model: The network.
    blocks: Number of layers or stages.
    key: Config key of the entry, for messages.

  Raises:
    UserError: The network has fewer layers or stages.
  """
  network = models_build.create(model, num_classes=None)
  family = models_build.family_of(network)
  known = len(family.map_names(network))
  if blocks > known:
    raise UserError(
      f"{key}.blocks = {blocks}, but {family.describe(model)} has {known}"
      " layers or stages; ask for no more."
    )

  def maps(params: Any, image: UInt8[Array, "b h w 3"]) -> Maps:
    norm = family.last_norm(network, params) is not None
    layers = range(-blocks, 0)
    found = feature_maps(network, params, image, layers, norm=norm)
    grid = found[0].shape[:3]
    return jnp.concatenate(
      [
        jax.image.resize(
          one.astype(jnp.float32),
          (*grid, one.shape[-1]),
          "linear",
          antialias=False,
        )
        for one in found
      ],
      axis=-1,
    )

  return maps


def check_image_size(model: schema.Model, image_size: int, *, key: str) -> None:
  """Raises UserError if a network does not accept images of this size.

  Args:
    model: The network.
    image_size: Side of the images, in pixels.
    key: Config key of the entry, for messages.
  """
  try:
    models_build.check(model.updated(image_size=image_size))
  except UserError as error:
    message = str(error).replace("config.model.image_size", f"{key}.image_size")
    if message == str(error):
      message = f"{key}.image_size = {image_size}: {message}"
    raise UserError(message) from None


def width(
  maps: Callable[[Any, Any], Maps], model: schema.Model, image_size: int
) -> int:
  """Returns the length of a joined feature vector without computing it.

  Args:
    maps: As for `joined_maps`.
    model: The network.
    image_size: Side of the images, in pixels.
  """
  network = models_build.create(model, num_classes=None)

  def of_shapes(image: Array) -> Array:
    side = model.image_size
    first = jnp.zeros((1, side, side, 3), jnp.uint8)
    params = network.init(jax.random.key(0), first)["params"]
    return maps(params, image)

  image = jax.ShapeDtypeStruct((1, image_size, image_size, 3), jnp.uint8)
  return jax.eval_shape(of_shapes, image).shape[-1]
