"""Global response normalisation. arXiv 2301.00808."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

_EPSILON = 1e-6


class GlobalResponseNorm(nn.Module):
  """Scales channels by the strength of their maps relative to the others'.

  It is initially the identity. Norms and their mean are in float32.
  """

  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    zeros = nn.initializers.zeros
    scale = self.param("scale", zeros, x.shape[-1:])
    bias = self.param("bias", zeros, x.shape[-1:])
    values = x.astype(jnp.float32)
    norms = _norm(values)
    strength = norms / (jnp.mean(norms, axis=-1, keepdims=True) + _EPSILON)
    factor = 1 + scale.reshape(1, 1, 1, -1) * strength
    return (values * factor + bias.reshape(1, 1, 1, -1)).astype(self.dtype)


def _norm(x: Float[Array, "b h w c"]) -> Float[Array, "b 1 1 c"]:
  """Euclidean norm of each map, with gradient 0 at 0."""
  square = jnp.sum(jnp.square(x), axis=(1, 2), keepdims=True)
  positive = square > 0
  root = jnp.sqrt(jnp.where(positive, square, 1.0))
  return jnp.where(positive, root, 0.0)
