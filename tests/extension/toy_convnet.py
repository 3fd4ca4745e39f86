"""A family of its own: two convolutions, a mean and a linear head."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.family import Family
from vit_jax.models.layers.normalize import normalize

_KERNEL, _STRIDE = 3, 2


class Section(schema.Model):
  """Keys of `config.model` where its name is 'toy_convnet'."""

  name: Literal["toy_convnet"] = "toy_convnet"
  channels: schema.Size = schema.key(16, "Channels of both convolutions.")


@dataclasses.dataclass(frozen=True)
class Size:
  """The numbers that fix all shapes."""

  channels: int


class ConvNet(nn.Module):
  """Images to logits."""

  family: ClassVar[str] = "toy_convnet"

  channels: int
  num_classes: int | None
  image_size: int
  dtype: str = "float32"

  @nn.compact
  def __call__(
    self,
    images: UInt8[Array, "b h w c"] | Float[Array, "b h w c"],
    *,
    train: bool = False,
  ) -> Float[Array, "b classes"]:
    """Logits in float32; features [b, channels] if there is no head."""
    x = normalize(images, "minus_one_to_one", self.dtype)
    for layer in range(2):
      convolution = nn.Conv(
        self.channels,
        (_KERNEL, _KERNEL),
        strides=_STRIDE,
        dtype=self.dtype,
        name=f"layer_{layer}",
      )
      x = nn.gelu(convolution(x))
    self.sow("intermediates", "encoded", x)
    x = x.mean(axis=(1, 2)).astype(jnp.float32)
    self.sow("intermediates", "representation", x)
    if self.num_classes is None:
      return x
    return nn.Dense(
      self.num_classes, kernel_init=nn.initializers.zeros, name="head"
    )(x)


def check(model: Section) -> None:
  """Raises UserError for an image that the strides do not divide."""
  stride = _STRIDE**2
  if model.image_size % stride:
    raise UserError(
      f"config.model.image_size = {model.image_size} is not a multiple of"
      f" {stride}; use {model.image_size // stride * stride + stride}."
    )


def create(model: Section, num_classes: int | None) -> ConvNet:
  return ConvNet(model.channels, num_classes, model.image_size, model.dtype)


def config_of(network: ConvNet) -> Section:
  return Section(
    channels=network.channels,
    num_classes=network.num_classes,
    image_size=network.image_size,
    dtype=network.dtype,
  )


def forward_flops(model: Section, num_classes: int | None) -> int:
  flops, side, inputs = 0, model.image_size, 3
  for _ in range(2):
    side //= _STRIDE
    flops += 2 * side**2 * _KERNEL**2 * inputs * model.channels
    inputs = model.channels
  return flops + 2 * model.channels * (num_classes or 0)


def num_params(model: Section, num_classes: int | None) -> int:
  convolutions = sum(
    (_KERNEL**2 * inputs + 1) * model.channels for inputs in (3, model.channels)
  )
  return convolutions + (model.channels + 1) * (num_classes or 0)


def shrink(model: Any) -> None:
  model.update(channels=4, image_size=8)


def feature(network: ConvNet, name: str, sown: Mapping[str, Any]) -> jax.Array:
  return sown["intermediates"][name][0]


def layer_of(model: Section, path: str) -> int | None:
  return None if path.startswith("head/") else int(path[len("layer_")])


FAMILY = Family(
  section=Section,
  title="Toy convolutional network",
  tag="toy_convnet",
  check=check,
  create=create,
  config_of=config_of,
  size=lambda model: Size(model.channels),
  forward_flops=forward_flops,
  num_params=num_params,
  grid=lambda model: (model.image_size // _STRIDE**2, _STRIDE**2),
  describe=lambda model: f"ConvNet of {model.channels} channels",
  shrink=shrink,
  feature_names=lambda network: ["encoded", "pre_logits"],
  feature=feature,
  pixel_filters=lambda network, params: params["layer_0"]["kernel"],
  layer_of=layer_of,
  # The last axis of a kernel is divided over the mesh's tensor axis.
  sharding_rules=((r"layer_\d/kernel", (None, None, None, "tensor")),),
)
registry.FAMILIES.register("toy_convnet", FAMILY)
