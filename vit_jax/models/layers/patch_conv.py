"""Convolutions with a stride equal to the side of their filters."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float


class PatchConv(nn.Module):
  """A convolution of non-overlapping patches, as one matrix product.

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
    batch, height, width, channels = x.shape
    patch = self.patch_size
    rows, columns = height // patch, width // patch
    shape = (patch, patch, channels, self.features)
    kernel = self.param("kernel", self.kernel_init, shape)
    bias = self.param("bias", nn.initializers.zeros, (self.features,))
    x = x[:, : rows * patch, : columns * patch]
    x = x.reshape(batch, rows, patch, columns, patch, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows, columns, -1)
    kernel = kernel.astype(self.dtype).reshape(-1, self.features)
    x = jnp.matmul(x, kernel)
    return x + bias.astype(self.dtype).reshape(1, 1, 1, -1)
