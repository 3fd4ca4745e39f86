"""The targets of masked patch prediction. [P] appendix B.1.2."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped, UInt8

from vit_jax.models.layers.normalize import normalize
from vit_jax.objectives import losses, patches
from vit_jax.objectives.masked_patch.kind import COLOURS

_LEVELS = 8  # Levels of red, green and blue each.
_SIDE = 4  # Side of the small image that a patch can be scaled down to.

Metrics = dict[str, Float[Array, ""]]


@dataclasses.dataclass(frozen=True)
class Target:
  """One kind of target.

  Attributes:
    of: (Images, side of a patch, patches along a side of the image,
      `config.model.normalize`) -> targets [b, n, m].
    metrics: (Outputs [b, k, num_outputs], targets [b, k, m]) -> means over
      the patches; "loss" is minimised.
  """

  of: Callable[[UInt8[Array, "b h w c"], int, int, str], Shaped[Array, "b n m"]]
  metrics: Callable[[Float[Array, "b k o"], Shaped[Array, "b k m"]], Metrics]


def colours(
  images: UInt8[Array, "b h w c"], size: int, grid: int, side: int
) -> Int[Array, "b n m"]:
  """Returns mean colours of the side x side equal parts of each patch.

  Parts are in row-major order. A colour is 64 red + 8 green + blue, each
  quantised to eight equal parts of 0 to 255 in integer arithmetic.
  """
  batch, part, parts = images.shape[0], size // side, grid * side
  images = images[:, : grid * size, : grid * size].astype(jnp.int32)
  sums = images.reshape(batch, parts, part, parts, part, 3).sum(axis=(2, 4))
  red, green, blue = jnp.moveaxis(_LEVELS * sums // (256 * part**2), -1, 0)
  colour = _LEVELS**2 * red + _LEVELS * green + blue
  colour = colour.reshape(batch, grid, side, grid, side)
  return colour.transpose(0, 1, 3, 2, 4).reshape(batch, grid**2, side**2)


def _classification(
  outputs: Float[Array, "b k o"], wanted: Int[Array, "b k m"]
) -> Metrics:
  """Returns the cross-entropy in nats per colour, and the accuracy."""
  logits = outputs.reshape(-1, COLOURS)
  labels = wanted.reshape(-1)
  return {
    "loss": losses.softmax_cross_entropy(logits, labels).mean(),
    "accuracy": losses.is_top1(logits, labels).astype(jnp.float32).mean(),
  }


def _values(
  images: UInt8[Array, "b h w c"], size: int, grid: int, kind: str
) -> Float[Array, "b n m"]:
  pixels = patches.cut(images, size, grid)
  return normalize(pixels, kind).reshape(*pixels.shape[:2], -1)


def _regression(
  outputs: Float[Array, "b k o"], wanted: Float[Array, "b k o"]
) -> Metrics:
  """Returns the mean squared error of normalised values."""
  return {"loss": jnp.square(outputs - wanted).mean()}


TARGETS = {
  "mean_colour": Target(
    of=lambda images, size, grid, kind: colours(images, size, grid, 1),
    metrics=_classification,
  ),
  "colours_4x4": Target(
    of=lambda images, size, grid, kind: colours(images, size, grid, _SIDE),
    metrics=_classification,
  ),
  "pixels": Target(
    of=_values,
    metrics=_regression,
  ),
}
