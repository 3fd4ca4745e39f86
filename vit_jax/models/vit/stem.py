"""The convolutional stem of hybrids: a post-activation ResNet without a head.

Names and numbers are those of google-research/vision_transformer.
"""

import functools

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers.convolution import (
  BETWEEN_UNITS,
  Stage,
  StandardizedConv,
)
from vit_jax.models.layers.group_norm import GroupNorm

# Divisor of a filter, and value added to the variance of a group, by
# `config.model.standardization`.
_DEVIATIONS = {
  "google": lambda variance: jnp.sqrt(variance) + 1e-5,
  "torch": lambda variance: jnp.sqrt(variance + 1e-8),
}
_NORM_EPSILONS = {"google": 1e-6, "torch": 1e-5}


class Unit(nn.Module):
  """A bottleneck: 1 x 1, 3 x 3 with the stride, 1 x 1 to 4 times the width."""

  width: int
  stride: int
  dtype: str
  standardization: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    conv = functools.partial(_conv, self.dtype, self.standardization)
    norm = functools.partial(_norm, self.dtype, self.standardization)
    shortcut = x
    if x.shape[-1] != 4 * self.width or self.stride > 1:
      shortcut = conv("conv_proj", 4 * self.width, 1, self.stride)(x)
      shortcut = norm("gn_proj")(shortcut)
    x = conv("conv1", self.width, 1, 1)(x)
    x = nn.relu(norm("gn1")(x))
    x = conv("conv2", self.width, 3, self.stride)(x)
    x = nn.relu(norm("gn2")(x))
    x = conv("conv3", 4 * self.width, 1, 1)(x)
    # Units are initially identities.
    x = norm("gn3", nn.initializers.zeros)(x)
    return nn.with_logical_constraint(nn.relu(shortcut + x), BETWEEN_UNITS)


class Stem(nn.Module):
  """Feature maps that patches are cut from.

  Attributes:
    blocks: Units of each stage; () for the root only.
    width: Channels of the root; stage i has 4 * 2^i times as many.
    dtype: Dtype of the products.
    remat: A value of `config.model.remat`, applied to each unit.
    standardization: A value of `config.model.standardization`.
  """

  blocks: tuple[int, ...]
  width: int
  dtype: str
  remat: str
  standardization: str

  @nn.compact
  def __call__(
    self, images: Float[Array, "b h w c"]
  ) -> Float[Array, "b y x k"]:
    """Maps of 1 / 4 of the image's size, halved by every stage but the first.

    Args:
      images: Normalised pixels.
    """
    dtype, standardization = self.dtype, self.standardization
    x = _conv(dtype, standardization, "conv_root", self.width, 7, 2)(images)
    x = nn.relu(_norm(dtype, standardization, "gn_root")(x))
    x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    for i, num_units in enumerate(self.blocks):
      x = Stage(
        Unit,
        _unit_name,
        num_units,
        self.width * 2**i,
        2 if i else 1,
        dtype,
        self.remat,
        standardization,
        name=f"block{i + 1}",
      )(x)
    return x


def _unit_name(index: int) -> str:
  return f"unit{index + 1}"


def _conv(
  dtype: str,
  standardization: str,
  name: str,
  features: int,
  kernel_size: int,
  stride: int,
) -> StandardizedConv:
  deviation = _DEVIATIONS[standardization]
  return StandardizedConv(
    features, kernel_size, stride, None, deviation, dtype, name=name
  )


def _norm(
  dtype: str,
  standardization: str,
  name: str,
  scale_init: nn.initializers.Initializer = nn.initializers.ones,
) -> GroupNorm:
  epsilon = _NORM_EPSILONS[standardization]
  return GroupNorm(epsilon, dtype, scale_init, name=name)
