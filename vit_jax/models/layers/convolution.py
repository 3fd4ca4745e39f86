"""Convolutions with standardised kernels, and stages of them.

arXiv 1903.10520.
"""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from vit_jax.models.layers import pointwise, remat_policies

# The convolutions of a residual unit are its products; norms and activations
# between them are cheap to recompute.
_REMAT = remat_policies.by_name(["convolution"])

# Names of the dimensions of the maps between residual units; see
# `encoder_block.BETWEEN_BLOCKS`.
BETWEEN_UNITS = ("batch", "rows", "columns", "channels")


class StandardizedConv(nn.Module):
  """A convolution without bias, with filters of mean 0 and deviation 1.

  Attributes:
    features: Channels of the result.
    kernel_size: Side of the filters.
    stride: Stride in both directions.
    padding: Rows and columns of zeros on each side; None pads like 'SAME',
      which with a stride depends on the size and may be uneven.
    deviation: Divisor of a filter, computed from its variance.
    dtype: Dtype of the product; statistics are in float32.
  """

  features: int
  kernel_size: int
  stride: int
  padding: int | None
  deviation: Callable[[Array], Array]
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    shape = (self.kernel_size, self.kernel_size, x.shape[-1], self.features)
    kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
    kernel = standardize(jnp.asarray(kernel), self.deviation)
    kernel = kernel.astype(self.dtype)
    if self.kernel_size == 1:
      # On a CPU the kernel gradient of a matrix product takes half the time.
      x = x[:, :: self.stride, :: self.stride]
      x = pointwise.dense(x, kernel[0, 0])
    else:
      padding = "SAME" if self.padding is None else [(self.padding,) * 2] * 2
      x = jax.lax.conv_general_dilated(
        x,
        kernel,
        window_strides=(self.stride, self.stride),
        padding=padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
      )
    return checkpoint_name(x, "convolution")


class Stage(nn.Module):
  """Residual units of one width; the first applies the stride.

  Attributes:
    unit: Class of the units, called with (width, stride, dtype,
      standardization).
    unit_name: Function from the index of a unit to its name.
    num_units: Number of units.
    width: Inner width of the units.
    stride: Stride of the first unit, pixels.
    dtype: As `config.model.dtype`.
    remat: As `config.model.remat`, for each unit.
    standardization: As `config.model.standardization`.
  """

  unit: type[nn.Module]
  unit_name: Callable[[int], str]
  num_units: int
  width: int
  stride: int
  dtype: str
  remat: str
  standardization: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    unit = self.unit
    if self.remat != "none":
      unit = nn.remat(unit, policy=_REMAT[self.remat])
    for i in range(self.num_units):
      x = unit(
        self.width,
        1 if i else self.stride,
        self.dtype,
        self.standardization,
        name=self.unit_name(i),
      )(x)
    return x


def standardized_filters(
  kernel: Float[ArrayLike, "y x c k"],
) -> Float[Array, "y x c k"]:
  """The filters that a standardised convolution applies, in float32."""
  return standardize(
    jnp.asarray(kernel, jnp.float32),
    lambda variance: jnp.sqrt(variance + 1e-10),
  )


def standardize(
  kernel: Float[Array, "y x c k"], deviation: Callable[[Array], Array]
) -> Float[Array, "y x c k"]:
  """Each filter minus its mean, divided by `deviation` of its variance."""
  filters = kernel.reshape(-1, kernel.shape[-1])
  centred = filters - jnp.mean(filters, axis=0, keepdims=True)
  variance = jnp.mean(jnp.square(centred), axis=0, keepdims=True)
  return (centred * (1 / deviation(variance))).reshape(kernel.shape)
