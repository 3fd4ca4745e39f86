"""A straightforward ConvNeXt of Flax's own layers.

A baseline and an oracle, as `PlainViT` is: the depthwise convolutions are
XLA's, with as many groups as channels. Its parameters are those of `ConvNeXt`.
"""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.benchmarking.plain_swin import PlainPatches

_INIT = nn.initializers.normal(0.02)


class PlainConvNeXt(nn.Module):
  """Normalised float images to logits; attributes as `ConvNeXt`'s."""

  depths: tuple[int, ...]
  widths: tuple[int, ...]
  stem_stride: int
  num_classes: int
  dtype: str = "float32"

  @nn.compact
  def __call__(
    self, images: Float[Array, "b h w c"], *, train: bool = False
  ) -> Float[Array, "b classes"]:
    del train
    x = PlainPatches(
      self.widths[0], self.stem_stride, 1e-6, self.dtype, name="stem"
    )(images)
    for i, depth in enumerate(self.depths):
      x = PlainStage(
        depth, self.widths[i], i > 0, self.dtype, name=f"stage{i + 1}"
      )(x)
    x = x.mean(axis=(1, 2))
    x = nn.LayerNorm(1e-6, dtype=self.dtype, name="norm")(x)
    head = nn.Dense(
      self.num_classes,
      dtype=self.dtype,
      kernel_init=nn.initializers.zeros,
      name="head",
    )
    return head(x).astype(jnp.float32)


class PlainStage(nn.Module):
  """Blocks of one width, after a downsampling if `halves`."""

  depth: int
  width: int
  halves: bool
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    if self.halves:
      x = PlainDownsample(self.width, self.dtype, name="downsample")(x)
    for i in range(self.depth):
      x = PlainBlock(self.dtype, name=f"block{i + 1:02d}")(x)
    return x


class PlainDownsample(nn.Module):
  width: int
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    x = nn.LayerNorm(1e-6, dtype=self.dtype, name="norm")(x)
    return nn.Conv(
      self.width,
      (2, 2),
      strides=(2, 2),
      dtype=self.dtype,
      kernel_init=_INIT,
      name="conv",
    )(x)


class PlainBlock(nn.Module):
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    width = x.shape[-1]
    settings = dict(dtype=self.dtype, kernel_init=_INIT)
    y = nn.Conv(
      width,
      (7, 7),
      padding=3,
      feature_group_count=width,
      name="depthwise",
      **settings,
    )(x)
    y = nn.LayerNorm(1e-6, dtype=self.dtype, name="norm")(y)
    y = nn.gelu(nn.Dense(4 * width, name="expand", **settings)(y), False)
    y = nn.Dense(width, name="project", **settings)(y)
    gamma = self.param("gamma", nn.initializers.constant(1e-6), (width,))
    return x + y * jnp.asarray(gamma, self.dtype)
