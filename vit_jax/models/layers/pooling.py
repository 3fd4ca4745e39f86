"""Pooling of encoded tokens into one feature per image."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.mlp import LayerConfig, MlpBlock


class MAPHead(nn.Module):
  """Multi-head attention pooling: a learned query attends to all tokens.

  It has no dropout, regardless of the rate of the other layers. [BV]
  """

  config: LayerConfig

  @nn.compact
  def __call__(
    self,
    tokens: Float[Array, "b n d"],
    mask: Bool[Array, "b n"] | None = None,
  ) -> Float[Array, "b d"]:
    batch, _, width = tokens.shape
    config = self.config
    init = nn.initializers.xavier_uniform()
    probe = self.param("probe", init, (1, 1, width)).astype(config.dtype)
    probe = jnp.broadcast_to(probe, (batch, 1, width))
    attention = MultiHeadAttention(
      config, name="MultiHeadDotProductAttention_0"
    )
    x = attention(probe, tokens, mask=mask)
    norm = LayerNorm(config.layer_norm_eps, config.dtype, name="LayerNorm_0")
    x = x + MlpBlock(config, False, name="MlpBlock_0")(norm(x))
    return x[:, 0]


def mean(
  tokens: Float[Array, "b n d"], mask: Bool[Array, "b n"] | None = None
) -> Float[Array, "b d"]:
  """Mean of each image's tokens, or of those the mask keeps."""
  if mask is None:
    return jnp.mean(tokens, axis=1)
  total = jnp.sum(jnp.where(mask[:, :, None], tokens, 0), axis=1)
  count = jnp.maximum(jnp.sum(mask, axis=1), 1)
  return total / count[:, None].astype(tokens.dtype)
