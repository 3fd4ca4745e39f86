"""The MLP of an encoder block, and the settings that all layers share."""

import dataclasses

import flax.linen as nn
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.models.layers.dropout import Dropout
from vit_jax.models.layers.gelu import gelu


@dataclasses.dataclass(frozen=True)
class LayerConfig:
  """Settings of every layer; the keys of `config.model` of the same names."""

  num_heads: int
  mlp_dim: int
  dropout_rate: float = 0.0
  dtype: str = "float32"
  softmax_dtype: str = "float32"
  attention: str = "xla"
  gelu: str = "tanh"
  layer_norm_eps: float = 1e-6
  qkv_bias: bool = True
  layer_scale: float | None = None


class MlpBlock(nn.Module):
  """Two dense layers with a GELU between, dropout after each. Equation 3."""

  config: LayerConfig
  train: bool

  @nn.compact
  def __call__(self, x: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    config = self.config
    dense = dict(
      dtype=config.dtype,
      kernel_init=nn.initializers.xavier_uniform(),
      bias_init=nn.initializers.normal(1e-6),
    )
    width = x.shape[-1]
    x = nn.Dense(config.mlp_dim, name="Dense_0", **dense)(x)
    x = checkpoint_name(x, "mlp_hidden")
    x = gelu(x, config.gelu)
    x = Dropout(config.dropout_rate, deterministic=not self.train)(x)
    x = nn.Dense(width, name="Dense_1", **dense)(x)
    return Dropout(config.dropout_rate, deterministic=not self.train)(x)
