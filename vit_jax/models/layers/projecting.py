"""Projections of tokens to heads and back, in the form each kernel needs."""

from collections.abc import Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float

from vit_jax.models.layers import placement
from vit_jax.models.layers.layer_scale import Parameter, scaled
from vit_jax.models.layers.starts import Matrix


class Projection(NamedTuple):
  """x W + b to queries, keys or values.

  Attributes:
    kernel: The matrix W, in the dtype of the network.
    bias: The bias b; None for no bias.
  """

  kernel: Float[Array, "d heads k"]
  bias: Float[Array, "heads k"] | None


class HeadProjection(nn.Module):
  """The parameters of a projection to heads."""

  num_heads: int
  dtype: str
  use_bias: bool
  kernel_init: Matrix

  @nn.compact
  def __call__(self, width: int) -> Projection:
    shape = (self.num_heads, width // self.num_heads)
    kernel = self.param("kernel", self.kernel_init, (width, *shape), 1)
    bias = None
    if self.use_bias:
      bias = self.param("bias", nn.initializers.zeros, shape)
    return Projection(kernel.astype(self.dtype), bias)


class OutputProjection(nn.Module):
  """The concatenated results of the heads times U_msa."""

  num_heads: int
  dtype: str
  kernel_init: Matrix

  @nn.compact
  def __call__(
    self,
    x: Float[Array, "b n heads k"] | Float[Array, "b n d"],
    scale: Float[Parameter, " d"] | None = None,
  ) -> Float[Array, "b n d"]:
    side_by_side = x.ndim == 3
    width = x.shape[-1] if side_by_side else self.num_heads * x.shape[-1]
    shape = (self.num_heads, width // self.num_heads, width)
    kernel = self.param("kernel", self.kernel_init, shape, 2)
    bias = self.param("bias", nn.initializers.zeros, (width,))
    kernel, bias = scaled(kernel, bias, scale)
    kernel = kernel.astype(self.dtype)
    if side_by_side:
      x = x @ kernel.reshape(width, width)
    else:
      x = jnp.einsum("bnhk,hkd->bnd", x, kernel)
    return x + bias.astype(self.dtype)[None, None]


def by_head(
  x: Float[Array, "b n d"], projection: Projection
) -> Float[Array, "b n heads k"]:
  """Projects to heads on an axis of their own.

  On a GPU the product has the heads side by side, so that cuBLAS adds the bias.
  """
  if placement.platform() == "gpu":
    return _flat_product(x, projection)
  x = jnp.einsum("bnd,dhk->bnhk", x, projection.kernel)
  if projection.bias is not None:
    x = x + projection.bias.astype(x.dtype)[None, None]
  return x


def _flat_product(x, projection):
  product = x @ flat(projection.kernel)
  if projection.bias is not None:
    product = product + projection.bias.reshape(1, 1, -1).astype(product.dtype)
  return product.reshape(*x.shape[:2], *projection.kernel.shape[1:])


def flat(kernel: Float[Array, "d heads k"]) -> Float[Array, "d width"]:
  """W with the heads side by side."""
  return kernel.reshape(len(kernel), -1)


@jax.custom_vjp
def flat_scattered(
  kernel: Float[Array, "d heads k"],
) -> Float[Array, "d width"]:
  """W with the heads side by side, and a gradient that TPUs reduce-scatter.

  If devices share the update, each keeps some of the heads. With the heads
  outermost in memory the gradient is scattered; with heads side by side, as in
  the product's result, it would be summed on all devices and then sliced.
  """
  return flat(kernel)


def _kernel_shape(kernel):
  return flat(kernel), kernel.shape


def _by_heads(shape, grad):
  return (with_layout_constraint(grad, Layout((1, 0))).reshape(shape),)


flat_scattered.defvjp(_kernel_shape, _by_heads)


def flat_biases(
  projections: Sequence[Projection],
) -> tuple[Float[Array, " width"], ...] | None:
  """The biases with the heads side by side; zeros for one that is missing.

  Returns:
    None if there are no biases.
  """
  there = [p.bias for p in projections if p.bias is not None]
  biases = (
    jnp.zeros_like(there[0]) if p.bias is None else p.bias for p in projections
  )
  return tuple(b.reshape(-1) for b in biases) if there else None
