"""From encoded tokens to one feature per image."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.mlp import LayerConfig, MlpBlock


class MAPHead(nn.Module):
  """Multi-head attention pooling: a learned query attends to all tokens."""

  config: LayerConfig
  train: bool

  @nn.compact
  def __call__(self, tokens: Float[Array, "b n d"]) -> Float[Array, "b d"]:
    batch, _, width = tokens.shape
    config = self.config
    init = nn.initializers.xavier_uniform()
    probe = self.param("probe", init, (1, 1, width)).astype(config.dtype)
    probe = jnp.broadcast_to(probe, (batch, 1, width))
    attention = MultiHeadAttention(
      config, name="MultiHeadDotProductAttention_0"
    )
    x = attention(probe, tokens)
    norm = LayerNorm(config.layer_norm_eps, config.dtype, name="LayerNorm_0")
    x = x + MlpBlock(config, self.train, name="MlpBlock_0")(norm(x))
    return x[:, 0]


def pool(
  tokens: Float[Array, "b n d"],
  kind: str,
  config: LayerConfig,
  *,
  has_cls: bool,
  train: bool,
) -> Float[Array, "b d"] | Float[Array, "b n d"]:
  """One feature per image, or, for 'none', one per token.

  To be called inside a compact module, which then owns the parameters.

  Args:
    tokens: encoded tokens, the cls token first if there is one.
    kind: 'cls', 'gap' (mean of the patches), 'map' or 'none'.
    config: settings of the 'map' head's layers.
    has_cls: whether there is a cls token.
    train: whether dropout acts in it.
  """
  if kind == "cls":
    return tokens[:, 0]
  if kind == "gap":
    return jnp.mean(tokens[:, int(has_cls) :], axis=1)
  if kind == "map":
    return MAPHead(config, train, name="MAPHead_0")(tokens)
  return tokens
