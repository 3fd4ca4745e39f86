"""ResNet-v2 as Big Transfer has it (BiT, arXiv 1912.11370).

Pre-activation, GroupNorm and standardised kernels in place of BatchNorm.
Parameters: root_conv, block1/unit01/{a,b,c,proj}/kernel with
{a,b,c}_norm/{scale,bias} before each convolution, norm, head.
"""

import functools
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.models.layers.convolution import BETWEEN_UNITS, StandardizedConv
from vit_jax.models.layers.group_norm import GroupNorm
from vit_jax.models.layers.heads import LinearHead
from vit_jax.models.layers.normalize import check_size, normalize
from vit_jax.models.layers.stage import Stage

_NORM_EPSILON = 1e-5
# What a filter is divided by, per `config.model.standardization`.
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
  """Images to logits.

  Attributes:
    blocks: units of each stage; every stage but the first halves the map and
      doubles the width.
    width: channels of the root; 64 times the width factor.
    num_classes: outputs of the linear head; None: no head, and calls return
      the pooled features.

  The others are the keys of `config.model` of the same names.
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

  @nn.compact
  def __call__(
    self,
    images: UInt8[Array | np.ndarray, "b h w c"]
    | Float[Array | np.ndarray, "b h w c"],
    *,
    train: bool = False,
  ) -> Float[Array, "b classes"]:
    """Logits, in float32.

    Args:
      images: bytes, normalised here as `normalize` says, or floats that are.
      train: makes no difference, as nothing is dropped.

    Raises:
      UserError: the images are not of `image_size`.
    """
    del train
    check_size(images, self.image_size)
    x = normalize(images, self.normalize, self.dtype)
    conv = functools.partial(_conv, self.dtype, self.standardization)
    x = conv("root_conv", self.width, 7, 2)(x)
    x = _zero_padded_max_pool(x)
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    self.sow("intermediates", "root", x)
    for i, num_units in enumerate(self.blocks):
      x = Stage(
        Unit,
        unit_name,
        num_units,
        self.width * 2**i,
        2 if i else 1,
        self.dtype,
        self.remat,
        self.standardization,
        name=f"block{i + 1}",
      )(x)
    x = nn.relu(GroupNorm(_NORM_EPSILON, self.dtype, name="norm")(x))
    self.sow("intermediates", "encoded", x)
    x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32).astype(self.dtype)
    self.sow("intermediates", "representation", x)
    if self.num_classes is None:
      return x.astype(jnp.float32)
    return LinearHead(
      self.num_classes, self.head_bias_init, self.dtype, name="head"
    )(x)


def unit_name(index: int) -> str:
  """Name of a stage's unit, from its index: 'unit01' for 0."""
  return f"unit{index + 1:02d}"


def _zero_padded_max_pool(x: Float[Array, "b h w c"]) -> Array:
  """3 x 3, stride 2, with zeros around the map taking part in the maxima.

  Nothing rectifies the root, so at the border a zero may win, in the original
  too.
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
