"""GroupNorm with float32 statistics and a backward pass in closed form.

arXiv 1803.08494.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.resnet.sizes import NUM_GROUPS


class GroupNorm(nn.Module):
  """Normalisation over places and 1 / 32 of the channels, then scale and shift.

  Attributes:
    epsilon: Value added to the variance.
    dtype: Dtype of the result.
    scale_init: Initializer of the scale.
  """

  epsilon: float
  dtype: str
  scale_init: nn.initializers.Initializer = nn.initializers.ones

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    scale = self.param("scale", self.scale_init, x.shape[-1:])
    bias = self.param("bias", nn.initializers.zeros, x.shape[-1:])
    scale, bias = jnp.asarray(scale), jnp.asarray(bias)
    return _group_norm(self.epsilon, self.dtype, x, scale, bias)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _group_norm(epsilon, dtype, x, scale, bias):
  return _forward(epsilon, dtype, x, scale, bias)[0]


def _forward(epsilon, dtype, x, scale, bias):
  mean, inverse = _statistics(epsilon, x.astype(jnp.float32))
  factor = inverse * scale[None]
  result = (x.astype(jnp.float32) - _maps(mean)) * _maps(factor)
  result = result + _maps(bias[None])
  # Automatic differentiation would keep more float32 maps than x, and takes
  # nearly twice as long on a CPU.
  return result.astype(dtype), (x, mean, inverse, scale)


def _backward(epsilon, dtype, saved, gradient):
  del epsilon, dtype
  x, mean, inverse, scale = saved
  x32, gradient = x.astype(jnp.float32), gradient.astype(jnp.float32)
  dbias = jnp.sum(gradient, axis=(1, 2))
  along = jnp.sum(gradient * x32, axis=(1, 2))
  along = (along - mean * dbias) * inverse  # With x normalised.
  # Normalising removes the mean and the component along its own result; all
  # three terms are numbers per channel, some of them multiplied by maps.
  num_places = x.shape[1] * x.shape[2]
  inner_mean = _group_means(dbias * scale[None]) / num_places
  slope = inverse * inverse * _group_means(along * scale[None]) / num_places
  dx = (
    gradient * _maps(inverse * scale[None])
    - x32 * _maps(slope)
    + _maps(slope * mean - inverse * inner_mean)
  )
  return dx.astype(x.dtype), jnp.sum(along, axis=0), jnp.sum(dbias, axis=0)


_group_norm.defvjp(_forward, _backward)


def _statistics(
  epsilon: float, x: Float[Array, "b h w c"]
) -> tuple[Float[Array, "b c"], Float[Array, "b c"]]:
  """Mean and 1 / standard deviation of each channel's group.

  Places are summed first, so that the large array keeps its layout and groups
  are formed from one number per channel.
  """
  mean = _group_means(jnp.mean(x, axis=(1, 2)))
  square = _group_means(jnp.mean(jnp.square(x), axis=(1, 2)))
  # Rounding can make the variance of a constant group slightly negative.
  variance = jnp.maximum(square - jnp.square(mean), 0.0)
  return mean, jax.lax.rsqrt(variance + epsilon)


def _group_means(x: Float[Array, "b c"]) -> Float[Array, "b c"]:
  """Mean over the group of each channel."""
  batch, channels = x.shape
  size = channels // NUM_GROUPS
  means = jnp.mean(x.reshape(batch, NUM_GROUPS, size), axis=-1)
  return jnp.repeat(means, size, axis=-1, total_repeat_length=channels)


def _maps(x: Float[Array, "b c"]) -> Float[Array, "b 1 1 c"]:
  """Numbers per channel, shaped to broadcast with maps."""
  return x[:, None, None]
