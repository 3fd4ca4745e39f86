"""ResNet-v2 of Big Transfer (BiT, arXiv 1912.11370).

It has pre-activation, with GroupNorm and standardised kernels instead of
BatchNorm. Parameters: root_conv, block1/unit01/{a,b,c,proj}/kernel with
{a,b,c}_norm/{scale,bias} before each convolution, norm, head.
"""

import functools
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers.convolution import (
  BETWEEN_UNITS,
  Stage,
  StandardizedConv,
)
from vit_jax.models.layers.group_norm import GroupNorm
from vit_jax.models.layers.heads import LinearHead
from vit_jax.models.layers.normalize import Images, normalize

_NORM_EPSILON = 1e-5
# Divisor of a filter, by `config.model.standardization`.
_DEVIATIONS = {
  "google": lambda variance: jnp.sqrt(variance + 1e-10),
  "torch": lambda variance: jnp.sqrt(variance + 1e-8),
}


class Unit(nn.Module):
  """A bottleneck: 1 x 1, 3 x 3 with the stride, 1 x 1 to 4 times the width."""

  width: int
  stride: int
  dtype: str
  standardization: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    conv = functools.partial(_conv, self.dtype, self.standardization)

    def activate(name, x):
      return nn.relu(GroupNorm(_NORM_EPSILON, self.dtype, name=name)(x))

    shortcut = x
    x = activate("a_norm", x)
    if x.shape[-1] != 4 * self.width or self.stride > 1:
      shortcut = conv("proj", 4 * self.width, 1, self.stride)(x)
    x = conv("a", self.width, 1, 1)(x)
    x = activate("b_norm", x)
    x = conv("b", self.width, 3, self.stride)(x)
    x = activate("c_norm", x)
    x = shortcut + conv("c", 4 * self.width, 1, 1)(x)
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    self.sow("intermediates", "map", x)
    return x


class ResNet(nn.Module):
  """A network from images to logits.

  Attributes:
    blocks: Units of each stage; every stage but the first halves the map and
      doubles the width.
    width: Channels of the root, 64 times the width factor.
    num_classes: Outputs of the linear head; None for no head, so that calls
      return the pooled features.

  The other attributes are the keys of `config.model` with the same names.
  """

  family: ClassVar[str] = "resnet"

  blocks: tuple[int, ...]
  width: int
  num_classes: int | None
  image_size: int = 224
  head_bias_init: float = 0.0
  dtype: str = "float32"
  remat: str = "none"
  normalize: str = "minus_one_to_one"
  standardization: str = "google"

  def setup(self):
    conv = functools.partial(_conv, self.dtype, self.standardization)
    self._root = conv("root_conv", self.width, 7, 2)
    self._stages = [
      Stage(
        Unit,
        unit_name,
        num_units,
        self.width * 2**i,
        2 if i else 1,
        self.dtype,
        self.remat,
        self.standardization,
        name=f"block{i + 1}",
      )
      for i, num_units in enumerate(self.blocks)
    ]
    self._norm = GroupNorm(_NORM_EPSILON, self.dtype, name="norm")
    if self.num_classes is not None:
      self._head = LinearHead(
        self.num_classes, self.head_bias_init, self.dtype, name="head"
      )

  def __call__(
    self, images: Images, *, train: bool = False
  ) -> Float[Array, "b classes"]:
    """Computes logits in float32.

    Args:
      images: Bytes, normalised here according to `normalize`, or floats that
        are already normalised; of any size.
      train: Ignored, as there is no dropout.
    """
    return self.head(self.encode(self.embed(images), train=train))

  def embed(self, images: Images) -> Float[Array, "b y x k"]:
    """Computes the root's map, a quarter of the image's size."""
    x = self._root(normalize(images, self.normalize, self.dtype))
    x = _zero_padded_max_pool(x)
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    self.sow("intermediates", "root", x)
    return x

  def encode(
    self, x: Float[Array, "b h w c"], *, train: bool = False
  ) -> Float[Array, "b y x k"]:
    """Computes the last map, normalised and rectified."""
    del train
    for stage in self._stages:
      x = stage(x)
    x = nn.relu(self._norm(x))
    self.sow("intermediates", "encoded", x)
    return x

  def head(self, x: Float[Array, "b y x k"]) -> Float[Array, "b classes"]:
    """Logits of a map, or its mean without a head; float32."""
    x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32).astype(self.dtype)
    self.sow("intermediates", "representation", x)
    return x.astype(jnp.float32) if self.num_classes is None else self._head(x)


def unit_name(index: int) -> str:
  """Name of a stage's unit from its index: 'unit01' for 0."""
  return f"unit{index + 1:02d}"


def _zero_padded_max_pool(x: Float[Array, "b h w c"]) -> Array:
  """3 x 3 max pooling of stride 2 that includes the zeros around the map.

  The root is not rectified, so a zero may win at the border, as in the
  original.
  """
  x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
  return nn.max_pool(x, (3, 3), strides=(2, 2))


def _conv(
  dtype: str,
  standardization: str,
  name: str,
  features: int,
  kernel_size: int,
  stride: int,
) -> StandardizedConv:
  return StandardizedConv(
    features,
    kernel_size,
    stride,
    kernel_size // 2,
    _DEVIATIONS[standardization],
    dtype,
    name=name,
  )
