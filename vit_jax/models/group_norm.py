"""GroupNorm with float32 statistics. arXiv 1803.08494."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.config.sizes import NUM_GROUPS


class GroupNorm(nn.Module):
  """Normalisation over places and 1 / 32 of the channels, scale and shift.

  Attributes:
    epsilon: added to the variance.
    dtype: of the result.
    scale_init: of the scale.
  """

  epsilon: float
  dtype: str
  scale_init: nn.initializers.Initializer = nn.initializers.ones

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    channels = x.shape[-1]
    scale = self.param("scale", self.scale_init, (channels,))
    bias = self.param("bias", nn.initializers.zeros, (channels,))
    x = x.astype(jnp.float32)
    # Places are summed first: the large array keeps its layout, and groups
    # are formed of one number per channel.
    mean = _group_means(jnp.mean(x, axis=(1, 2)))
    variance = _group_means(jnp.mean(jnp.square(x), axis=(1, 2)))
    # Rounding can leave a constant group a little below zero.
    variance = jnp.maximum(variance - jnp.square(mean), 0.0)
    factor = jax.lax.rsqrt(variance + self.epsilon) * scale[None]
    x = (x - mean[:, None, None]) * factor[:, None, None]
    return (x + bias[None, None, None]).astype(self.dtype)


def _group_means(x: Float[Array, "b c"]) -> Float[Array, "b c"]:
  """For every channel the mean of its group."""
  batch, channels = x.shape
  size = channels // NUM_GROUPS
  groups = x.reshape(batch, NUM_GROUPS, size).mean(axis=-1)
  return jnp.repeat(groups, size, axis=-1, total_repeat_length=channels)
