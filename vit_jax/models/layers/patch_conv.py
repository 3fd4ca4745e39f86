"""Convolutions with a stride equal to the side of their filters."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.models.layers import placement, pointwise


class PatchConv(nn.Module):
  """A convolution of non-overlapping patches, and a bias.

  Rows and columns beyond the last whole patch are dropped.

  Attributes:
    features: Channels of the result.
    patch_size: Side and stride of the filters.
    kernel_init: Initialiser of the filters.
    dtype: Dtype of the product.
  """

  features: int
  patch_size: int
  kernel_init: nn.initializers.Initializer
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    patch, channels = self.patch_size, x.shape[-1]
    shape = (patch, patch, channels, self.features)
    kernel = self.param("kernel", self.kernel_init, shape)
    bias = self.param("bias", nn.initializers.zeros, (self.features,))
    x = patch_product(x, kernel.astype(self.dtype))
    return x + bias.astype(self.dtype).reshape(1, 1, 1, -1)


def patch_product(
  x: Float[Array, "b h w c"], kernel: Float[Array, "p p c k"]
) -> Float[Array, "b y x k"]:
  """The product of each patch of p x p places with `kernel`.

  Rows and columns beyond the last whole patch are dropped. On TPUs it is a
  convolution, within which the compiler cuts maps into patches much faster
  (docs/notes/performance.md). CPUs are faster at a product of matrices.
  """
  if placement.platform() == "tpu":
    return strided_conv(x, kernel)
  batch, height, width, channels = x.shape
  patch, _, _, features = kernel.shape
  rows, columns = height // patch, width // patch
  x = x[:, : rows * patch, : columns * patch]
  x = x.reshape(batch, rows, patch, columns, patch, channels)
  x = x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows, columns, -1)
  return jnp.matmul(x, kernel.reshape(-1, features))


def strided_conv(
  x: Float[Array, "b h w c"],
  kernel: Float[Array, "p p c k"],
  precision: jax.lax.PrecisionLike = None,
) -> Float[Array, "b y x k"]:
  """`patch_product` as a convolution on any device.

  `precision` is that of float32 products, as in `jax.lax`.
  """
  product = jax.lax.conv_general_dilated(
    x,
    kernel,
    window_strides=kernel.shape[:2],
    padding="VALID",
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
    precision=precision,
  )
  return checkpoint_name(product, pointwise.PRODUCT)
