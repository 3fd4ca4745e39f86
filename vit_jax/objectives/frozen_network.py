"""A frozen network from any checkpoint, for an objective to learn from."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax import registry
from vit_jax.config import pixels, schema
from vit_jax.errors import UserError
from vit_jax.models import build, features
from vit_jax.models.layers.normalize import normalize
from vit_jax.objectives import frozen_path
from vit_jax.objectives.contract import Constants, Params
from vit_jax.objectives.frozen_path import RANDOM
from vit_jax.paper import cost
from vit_jax.pretrained import load, reading

_IMAGE_TOWER = "image"
# Name of the projection among the constants.
_PROJECTION = "projection"


@dataclasses.dataclass(frozen=True)
class FrozenNetwork:
  """A network of any family, from a checkpoint in any format.

  Attributes:
    network: The network.
    section: Section `model` of the network; `image_size` is that of its images.
    constants: Parameters of the network; the student's checkpoints do not store
      them.
    predicts_numbers: True if its outputs are numbers instead of logits.
    class_names: Names of its outputs; None if unknown.
    beside: Other parameters and state in the checkpoint, as of `Weights`.
  """

  network: nn.Module
  section: schema.Model
  constants: Constants
  predicts_numbers: bool = False
  class_names: Sequence[str] | None = None
  beside: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def width(self) -> int:
    """Returns the dimension of a patch's features."""
    projection = self.constants.params.get(_PROJECTION)
    if projection is not None:
      return projection["kernel"].shape[-1]
    return registry.FAMILIES.get(self.section.name).size(self.section).width

  def logits(
    self,
    params: Params,
    images: UInt8[Array, "b h w c"] | Float[Array, "b h w c"],
    student: schema.Model,
  ) -> Float[Array, "b classes"]:
    """Computes logits of the student's images, without gradients.

    Args:
      params: Parameters of the network.
      images: Bytes, or floats that are normalised for the student; converted to
        the network's normalisation and resized bilinearly to its image size.
      student: Section `model` of the student.
    """
    images = self._seen(images, student)
    return jax.lax.stop_gradient(self.network.apply({"params": params}, images))

  def patches(
    self,
    params: Params,
    images: UInt8[Array, "b h w c"] | Float[Array, "b h w c"],
    student: schema.Model,
  ) -> Float[Array, "b n d"]:
    """Computes patch features row by row in float32, without gradients.

    They are the feature 'encoded' without the prefix tokens, after the
    projection if it was read.

    Args: As for `logits`.
    """
    images = self._seen(images, student)
    own = {name: x for name, x in params.items() if name != _PROJECTION}
    found = features.features(self.network, own, images, ("encoded",))
    family = registry.FAMILIES.get(self.section.name)
    tokens = found["encoded"][:, family.num_prefix_tokens(self.section) :]
    if _PROJECTION in params:
      projection = params[_PROJECTION]
      dense = nn.Dense(
        self.width, use_bias="bias" in projection, dtype=self.section.dtype
      )
      tokens = dense.apply({"params": projection}, tokens)
    return jax.lax.stop_gradient(tokens.astype(jnp.float32))

  def _seen(self, images: Any, student: schema.Model) -> Array:
    """Converts images to the network's format."""
    images = _renormalized(images, student.normalize, self.section.normalize)
    side = self.section.image_size
    if images.shape[1:3] != (side, side):
      shape = (images.shape[0], side, side, images.shape[3])
      images = jax.image.resize(images, shape, "bilinear")
    return images.astype(self.section.dtype)


def read(path: str, dtype: str) -> FrozenNetwork:
  """Reads a network as saved.

  Args:
    path: A checkpoint in any format.
    dtype: Compute dtype.

  Raises:
    UserError: The checkpoint is missing, damaged or not understood.
  """
  weights = reading.read(path)
  section = weights.model.updated(**load.ANY_DEVICE, dtype=dtype)
  network = build.create(section, num_classes=section.num_classes)
  params = jax.tree.map(np.asarray, weights.params)
  return FrozenNetwork(
    network,
    section,
    Constants.of(path, params),
    weights.predicts_numbers,
    weights.class_names,
  )


def read_patches(
  key: str, path: str, student: schema.Model, *, projected: bool = False
) -> FrozenNetwork:
  """Reads a network with the same patches as a student.

  It receives images of the size that gives it the student's grid; its positions
  are resized. For two towers, the image tower is used.

  Args:
    key: Key of the config that holds the path, for messages.
    path: A checkpoint in any format, or 'random' as in `frozen_path`.
    student: Section `model` of the student, whose dtype is used.
    projected: True for features after the image tower's projection, if there is
      one.

  Raises:
    UserError: The checkpoint cannot be read, has no patches, or cannot match
      the student's.
  """
  if match := RANDOM.fullmatch(path):
    section = section_of_patches(key, path, student)
    return _random(path, int(match[1] or 0), section)
  weights = reading.read(path)
  section = _with_grid(key, path, image_tower(weights.model), student)
  whole = jax.tree.map(np.asarray, weights.params)
  has_towers = registry.FAMILIES.get(weights.model.name).parts
  params = whole[_IMAGE_TOWER] if has_towers else whole
  found = _projection(weights.model) if projected else None
  projection = {} if found is None else {_PROJECTION: whole[found[0]]}
  # The digest is that of the file, before any resizing.
  digests = Constants.of(path, params | projection).digests
  network, fitted = load.adapt(
    dataclasses.replace(weights, model=section, params=params, about_beside=())
  )
  fitted = jax.tree.map(np.asarray, fitted)
  return FrozenNetwork(
    network,
    section,
    Constants(fitted | projection, digests),
    beside={**weights.beside, **weights.state},
  )


@functools.cache
def model_in(path: str) -> schema.Model:
  """Reads the section `model` of a checkpoint."""
  return reading.read(path).model


@functools.cache
def _body_in(path: str) -> schema.Model:
  """Like `model_in`, except for a run's head; touches no device."""
  run = reading.run_config(path)
  return model_in(path) if run is None else run.model


def check_readable(key: str, path: str) -> None:
  """Checks that a network can be read, without touching a device.

  Args:
    key: Key of the config that holds the path, for messages.
    path: A checkpoint in any format.

  Raises:
    UserError: The checkpoint is missing, damaged or not understood.
  """
  with frozen_path.told(key):
    _body_in(path)


def projected_width(path: str) -> int | None:
  """Returns the width of features after a projection; None without one.

  Args:
    path: A checkpoint in any format, or 'random' as in `frozen_path`.
  """
  if RANDOM.fullmatch(path):
    return None
  found = _projection(_body_in(path))
  return None if found is None else found[1]


def _projection(model: schema.Model) -> tuple[str, int] | None:
  """Name and width of the image tower's projection."""
  part = registry.FAMILIES.get(model.name).parts.get(_IMAGE_TOWER)
  return None if part is None else part.projection(model)


def image_tower(model: schema.Model) -> schema.Model:
  """Returns a network's section, or the image tower's for two towers."""
  part = registry.FAMILIES.get(model.name).parts.get(_IMAGE_TOWER)
  return model if part is None else part.take(model)


def forward_flops(path: str) -> int:
  """Counts FLOPs of the forward pass of one image of the network's size."""
  section = model_in(path)
  return cost.computed_flops(section, num_classes=section.num_classes)


def patches_cost(
  key: str, path: str, student: schema.Model, *, projected: bool
) -> tuple[int, int]:
  """Returns the width of patches' features, and their FLOPs per image.

  Args: As of `read_patches`.
  """
  section = section_of_patches(key, path, student)
  width = registry.FAMILIES.get(section.name).size(section).width
  flops = cost.forward_flops(section, num_classes=None)
  last = projected_width(path) if projected else None
  if last is None:
    return width, flops
  side, _ = registry.FAMILIES.get(student.name).grid(student)
  return last, flops + 2 * side**2 * width * last


def section_of_patches(
  key: str, path: str, student: schema.Model
) -> schema.Model:
  """Returns section `model` of the network that `read_patches` would read.

  It touches no device.

  Raises:
    UserError: As for `read_patches`.
  """
  if RANDOM.fullmatch(path):
    return student.updated(**load.ANY_DEVICE, num_classes=None)
  return _with_grid(key, path, image_tower(_body_in(path)), student)


def _random(path: str, seed: int, section: schema.Model) -> FrozenNetwork:
  """Builds a network with random parameters from a seed."""
  network = build.create(section, num_classes=None)
  images = jnp.zeros((1, *[section.image_size] * 2, 3), jnp.uint8)
  params = jax.jit(network.init)(jax.random.key(seed), images)["params"]
  params = jax.tree.map(np.asarray, params)
  return FrozenNetwork(network, section, Constants.of(path, params))


def _with_grid(
  key: str, path: str, section: schema.Model, student: schema.Model
) -> schema.Model:
  """Returns the network's section adapted to a student's grid.

  Raises:
    UserError: The network has no patches, or cannot have this grid.
  """
  family = registry.FAMILIES.get(section.name)
  if not family.has_tokens:
    raise UserError(
      f"{key} = {path!r} is a {family.title}, which has no patches; take a"
      " Vision Transformer."
    )
  side, _ = registry.FAMILIES.get(student.name).grid(student)
  section = section.updated(**load.ANY_DEVICE, dtype=student.dtype)
  own, patch_size = family.grid(section)
  if own == side:
    return section
  resized = section.updated(image_size=side * patch_size)
  found, _ = family.grid(resized)
  if found != side:
    raise UserError(
      f"{key} = {path!r} has patches of {patch_size} pixels, {own} along a side"
      f" of its images, and no image size gives it the {side} of the student"
      " (config.model.image_size and variant); take another checkpoint."
    )
  return resized


def _renormalized(images: Any, given: str, wanted: str) -> Array:
  """Converts pixels to another network's normalisation, float32."""
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
