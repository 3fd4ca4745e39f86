"""A frozen network that a student learns from."""

import dataclasses
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.config import pixels, schema
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.layers.normalize import normalize
from vit_jax.objectives.contract import Constants, Params
from vit_jax.paper import cost
from vit_jax.pretrained import load, reading


@dataclasses.dataclass(frozen=True)
class Teacher:
  """A classifier of any family, from a checkpoint of any form.

  Attributes:
    network: Its network.
    section: Its section `model`.
    constants: Its parameters, which no checkpoint of the student holds.
  """

  network: nn.Module
  section: schema.Model
  constants: Constants

  def logits(
    self,
    params: Params,
    images: UInt8[Array, "b h w c"] | Float[Array, "b h w c"],
    student: schema.Model,
  ) -> Float[Array, "b classes"]:
    """Logits of the images that the student sees, without gradients.

    Args:
      params: Parameters of the teacher.
      images: Bytes, or floats that are normalised for the student; brought to
        the teacher's normalisation and, bilinearly, to its image size.
      student: Section `model` of the student.
    """
    images = _renormalized(images, student.normalize, self.section.normalize)
    side = self.section.image_size
    if images.shape[1:3] != (side, side):
      shape = (images.shape[0], side, side, images.shape[3])
      images = jax.image.resize(images, shape, "bilinear")
    images = images.astype(self.section.dtype)
    return jax.lax.stop_gradient(self.network.apply({"params": params}, images))


def read(config: schema.Config, num_classes: int) -> Teacher:
  """Reads the teacher of `config.objective.teacher`.

  Args:
    config: The experiment; the teacher computes in the student's dtype.
    num_classes: Classes of the training data.

  Raises:
    UserError: The checkpoint cannot be read, or its classes are others.
  """
  path = config.objective.teacher
  weights = reading.read(path)
  if weights.model.num_classes != num_classes:
    has = f"{weights.model.num_classes} classes"
    has = "no head" if weights.model.num_classes is None else has
    raise UserError(
      f"config.objective.teacher = {path!r} has {has}, but the training data"
      f" has {num_classes}; take a teacher that was trained on the same"
      " classes."
    )
  section = weights.model.updated(**load.ANY_DEVICE, dtype=config.model.dtype)
  network = build.create(section, num_classes=num_classes)
  params = jax.tree.map(np.asarray, weights.params)
  return Teacher(network, section, Constants.of(path, params))


@functools.cache
def forward_flops(path: str) -> int:
  """FLOPs of the forward pass of one image of the teacher's size."""
  section = reading.read(path).model
  return cost.forward_flops(section, num_classes=section.num_classes)


def _renormalized(images: Any, given: str, wanted: str) -> Array:
  """Pixels as another network wants them, float32."""
  if images.dtype == jnp.uint8:
    return normalize(images, wanted)
  images = images.astype(jnp.float32)
  if given == wanted:
    return images
  (mean, deviation), (new_mean, new_deviation) = (
    np.float32(pixels.parse(kind)).reshape(2, 1, 1, 1, -1)
    for kind in (given, wanted)
  )
  scale = deviation / new_deviation
  return images * scale + (mean - new_mean) / new_deviation
