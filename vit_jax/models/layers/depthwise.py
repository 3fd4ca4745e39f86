"""Depthwise convolutions: one filter for each channel."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers import placement


class DepthwiseConv(nn.Module):
  """One filter for each channel, zeros around the map, and a bias.

  Attributes:
    kernel_size: Side of the filters, odd.
    kernel_init: Initialiser of the filters.
    dtype: Dtype of the result.
    implementation: 'xla' for `depthwise_conv`; 'pallas' for our kernel on TPUs.
  """

  kernel_size: int
  kernel_init: nn.initializers.Initializer
  dtype: str
  implementation: str = "xla"

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    channels = x.shape[-1]
    shape = (self.kernel_size, self.kernel_size, 1, channels)
    kernel = self.param("kernel", self.kernel_init, shape)
    bias = self.param("bias", nn.initializers.zeros, (channels,))
    arrays = (array.astype(self.dtype) for array in (x, kernel, bias))
    # Initialisation may run on any device.
    in_kernel = self.implementation == "pallas" and not self.is_initializing()
    if in_kernel and placement.platform() == "tpu":
      return _in_kernel(*arrays)
    return _with_bias(*arrays)


def _with_bias(x, kernel, bias):
  return depthwise_conv(x, kernel) + bias.reshape(1, 1, 1, -1)


def _in_kernel(x, kernel, bias):
  # Imported late, as the kernels' compiler is slow to import.
  from vit_jax.models.layers import depthwise_kernel

  return depthwise_kernel.depthwise_conv(x, kernel, bias, otherwise=_with_bias)


def depthwise_conv(
  x: Float[Array, "b h w c"], kernel: Float[Array, "k k 1 c"]
) -> Float[Array, "b h w c"]:
  """Convolves each channel with its own filter; the map keeps its size.

  XLA has no kernel for it on CPUs, where a sum of shifted maps takes a tenth of
  the time (docs/notes/performance.md).
  """
  if placement.platform() == "cpu":
    return sum_of_shifts(x, kernel)
  return grouped_conv(x, kernel)


def grouped_conv(
  x: Float[Array, "b h w c"], kernel: Float[Array, "k k 1 c"]
) -> Float[Array, "b h w c"]:
  """XLA's own convolution, with as many groups as channels."""
  return jax.lax.conv_general_dilated(
    x,
    kernel,
    window_strides=(1, 1),
    padding=[(kernel.shape[0] // 2,) * 2] * 2,
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
    feature_group_count=x.shape[-1],
  )


@jax.custom_vjp
def sum_of_shifts(
  x: Float[Array, "b h w c"], kernel: Float[Array, "k k 1 c"]
) -> Float[Array, "b h w c"]:
  """The convolution as a sum of shifted maps, each multiplied by its tap."""
  _, rows, columns, _ = x.shape
  padded = _padded(x, kernel.shape[0])
  taps = kernel.astype(jnp.float32)
  total = jnp.zeros(x.shape, jnp.float32)
  for i in range(kernel.shape[0]):
    for j in range(kernel.shape[1]):
      shifted = padded[:, i : i + rows, j : j + columns]
      total = total + shifted * taps[i, j][None, None]
  return total.astype(x.dtype)


def _forward(x, kernel):
  return sum_of_shifts(x, kernel), (x, kernel)


def _backward(saved, gradient):
  x, kernel = saved
  size = kernel.shape[0]
  batch, rows, columns, channels = x.shape
  # The smallest number of equal parts that needs the least padding.
  parts = min(range(5, 9), key=lambda parts: -rows % parts)
  part = -(-rows // parts)
  more = ((0, 0), (0, parts * part - rows), (0, 0), (0, 0))
  padded = jnp.pad(_padded(x, size), more)
  wide = jnp.pad(gradient.astype(jnp.float32), more)

  def tap(index):
    # CPUs are slow at reductions and fast at sums of arrays, several of which
    # they compute at once: so parts of the map are added up before their rows.
    # Taps are in a loop, as unrolled they take two to six times as long.
    total = jnp.zeros((batch, part, columns, channels), jnp.float32)
    for start in range(0, parts * part, part):
      corner = (0, index // size + start, index % size, 0)
      shifted = jax.lax.dynamic_slice(padded, corner, total.shape)
      total = total + shifted * wide[:, start : start + part]
    total = total.reshape(-1, channels)
    # A product, which is even faster than a sum over rows.
    return jnp.dot(
      jnp.ones(total.shape[0]), total, precision=jax.lax.Precision.HIGHEST
    )

  taps = jax.lax.map(tap, jnp.arange(size**2))
  dkernel = taps.reshape(kernel.shape).astype(kernel.dtype)
  return sum_of_shifts(gradient, kernel[::-1, ::-1]), dkernel


sum_of_shifts.defvjp(_forward, _backward)


def _padded(x: Array, kernel_size: int) -> Array:
  edge = (kernel_size // 2,) * 2
  return jnp.pad(x.astype(jnp.float32), ((0, 0), edge, edge, (0, 0)))
