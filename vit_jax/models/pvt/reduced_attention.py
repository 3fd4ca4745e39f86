"""Attention to a smaller map: spatial reduction (arXiv 2106.13797).

Every place has a query, but keys and values come from fewer places: those of a
strided convolution, or averages over parts of the map.
"""

import math

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.models.layers import pointwise, softmax_attention
from vit_jax.models.layers.gelu import gelu
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.patch_conv import PatchConv
from vit_jax.models.pvt import sizes

# Published as a normal distribution truncated at -2 and 2, a hundred deviations
# away.
INIT = nn.initializers.normal(0.02)
# Initialiser of convolutions: deviation sqrt(2 / (places of a filter x outputs
# per group)).
CONV_INIT = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


class ReducedAttention(nn.Module):
  """Attention from all places of a map to those of a smaller one.

  Attributes:
    num_heads: Number of heads.
    reduction: Side of the map over that of its keys.
    is_linear: True if keys come from 7 x 7 averages for any size of map.
    epsilon: Epsilon of the norm of the reduced map.
    dtype: Dtype of the products.
  """

  num_heads: int
  reduction: int
  is_linear: bool
  epsilon: float
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    batch, height, width, channels = x.shape

    def project(name, x, kept):
      dense = nn.Dense(channels, dtype=self.dtype, kernel_init=INIT, name=name)
      x = checkpoint_name(dense(x.reshape(batch, -1, channels)), kept)
      return x.reshape(batch, -1, self.num_heads, channels // self.num_heads)

    smaller = self._reduced(x)
    query = project("queries", x, "query")
    query = query / math.sqrt(channels // self.num_heads)
    context = softmax_attention.attend(
      query.astype(self.dtype),
      project("keys", smaller, "key"),
      project("values", smaller, "value"),
    )
    context = checkpoint_name(context.reshape(x.shape), "context")
    return nn.Dense(
      channels,
      dtype=self.dtype,
      kernel_init=INIT,
      dot_general=pointwise.dot_general,
      name="output",
    )(context)

  def _reduced(self, x):
    """The reduced map that keys and values are computed from."""
    if not self.is_linear and self.reduction == 1:
      return x
    if self.is_linear:
      x = average_pool(x, sizes.POOLED)
    side = 1 if self.is_linear else self.reduction
    x = PatchConv(x.shape[-1], side, CONV_INIT, self.dtype, name="reduce")(x)
    x = LayerNorm(self.epsilon, self.dtype, name="reduce_norm")(x)
    return gelu(x, "exact") if self.is_linear else x


def average_pool(
  x: Float[Array, "b h w c"], side: int
) -> Float[Array, "b side side c"]:
  """Averages over side x side parts of a map, as in PyTorch's adaptive pooling.

  Of n places, part i begins at floor(i n / side) and ends before ceil((i + 1) n
  / side): parts overlap if they do not divide the map.
  """
  rows, columns = (_parts(n, side) for n in x.shape[1:3])
  found = jnp.einsum("bhwc,yh,xw->byxc", x.astype(jnp.float32), rows, columns)
  return found.astype(x.dtype)


def _parts(places: int, side: int) -> Float[np.ndarray, "side places"]:
  """Weights of the places in each part."""
  index = np.arange(side)[:, None]
  begins, ends = index * places // side, -(-(index + 1) * places // side)
  place = np.arange(places)
  inside = (place >= begins) & (place < ends)
  weights = inside / inside.sum(axis=1, keepdims=True)
  return weights.astype(np.float32)
