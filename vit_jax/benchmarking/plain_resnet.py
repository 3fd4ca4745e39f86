"""Straightforward ResNets: Flax's GroupNorm, XLA's convolutions as they are.

Baselines and oracles: the benchmark of the step compares with them, and tests
hold `ResNet` and the stem of hybrids to their results; nothing trains them.
Their parameters are those of ours.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class PlainResNet(nn.Module):
  """Normalised float images to logits; attributes as `ResNet`'s."""

  blocks: tuple[int, ...]
  width: int
  num_classes: int

  @nn.compact
  def __call__(
    self, images: Float[Array, "b h w c"], *, train: bool = False
  ) -> Float[Array, "b classes"]:
    del train
    x = _bit_conv(self.width, 7, 2, name="root_conv")(images)
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    x = nn.max_pool(x, (3, 3), strides=(2, 2))
    for i, num_units in enumerate(self.blocks):
      width = self.width * 2**i
      x = PlainStage(PlainUnit, num_units, width, i > 0, name=f"block{i + 1}")(
        x
      )
    x = nn.relu(nn.GroupNorm(epsilon=1e-5, name="norm")(x))
    head = nn.Dense(
      self.num_classes, kernel_init=nn.initializers.zeros, name="head"
    )
    return head(x.mean(axis=(1, 2)))


class PlainStage(nn.Module):
  """Units of one kind and width; the first may have a stride of 2."""

  unit: type[nn.Module]
  num_units: int
  width: int
  halves: bool

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    for i in range(self.num_units):
      stride = 2 if self.halves and i == 0 else 1
      digits = 2 if self.unit is PlainUnit else 1
      x = self.unit(self.width, stride, name=f"unit{i + 1:0{digits}d}")(x)
    return x


class PlainUnit(nn.Module):
  """Pre-activation bottleneck of BiT."""

  width: int
  stride: int

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    shortcut, outer = x, 4 * self.width
    x = nn.relu(nn.GroupNorm(epsilon=1e-5, name="a_norm")(x))
    if self.stride > 1 or x.shape[-1] != outer:
      shortcut = _bit_conv(outer, 1, self.stride, name="proj")(x)
    x = _bit_conv(self.width, 1, 1, name="a")(x)
    x = nn.relu(nn.GroupNorm(epsilon=1e-5, name="b_norm")(x))
    x = _bit_conv(self.width, 3, self.stride, name="b")(x)
    x = nn.relu(nn.GroupNorm(epsilon=1e-5, name="c_norm")(x))
    return shortcut + _bit_conv(outer, 1, 1, name="c")(x)


class PlainStemUnit(nn.Module):
  """Post-activation bottleneck of the hybrids."""

  width: int
  stride: int

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    shortcut, outer = x, 4 * self.width
    if self.stride > 1 or x.shape[-1] != outer:
      shortcut = _stem_conv(outer, 1, self.stride, name="conv_proj")(x)
      shortcut = nn.GroupNorm(name="gn_proj")(shortcut)
    x = _stem_conv(self.width, 1, 1, name="conv1")(x)
    x = nn.relu(nn.GroupNorm(name="gn1")(x))
    x = _stem_conv(self.width, 3, self.stride, name="conv2")(x)
    x = nn.relu(nn.GroupNorm(name="gn2")(x))
    x = _stem_conv(outer, 1, 1, name="conv3")(x)
    x = nn.GroupNorm(scale_init=nn.initializers.zeros, name="gn3")(x)
    return nn.relu(shortcut + x)


def plain_stem(
  images: Float[Array, "b h w c"], blocks: tuple[int, ...], width: int
) -> Float[Array, "b y x k"]:
  """Feature maps; to be called inside a compact module."""
  x = _stem_conv(width, 7, 2, name="conv_root")(images)
  x = nn.relu(nn.GroupNorm(name="gn_root")(x))
  x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
  for i, num_units in enumerate(blocks):
    x = PlainStage(
      PlainStemUnit, num_units, width * 2**i, i > 0, name=f"block{i + 1}"
    )(x)
  return x


class _StandardizedConv(nn.Module):
  """XLA's convolution, its kernel standardised as it is read."""

  features: int
  kernel_size: int
  stride: int
  padding: int | None
  epsilon_in_root: float
  epsilon: float

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    shape = (self.kernel_size, self.kernel_size, x.shape[-1], self.features)
    kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
    variance = kernel.var((0, 1, 2), keepdims=True)
    kernel = kernel - kernel.mean((0, 1, 2), keepdims=True)
    deviation = jnp.sqrt(variance + self.epsilon_in_root) + self.epsilon
    return jax.lax.conv_general_dilated(
      x,
      kernel / deviation,
      (self.stride, self.stride),
      "SAME" if self.padding is None else [(self.padding, self.padding)] * 2,
      dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def _bit_conv(features, kernel_size, stride, name):
  return _StandardizedConv(
    features, kernel_size, stride, kernel_size // 2, 1e-10, 0.0, name=name
  )


def _stem_conv(features, kernel_size, stride, name):
  return _StandardizedConv(
    features, kernel_size, stride, None, 0.0, 1e-5, name=name
  )
