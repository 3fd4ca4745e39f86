"""The MLP of an encoder block, and the settings shared by all layers."""

import dataclasses
import functools

import flax.linen as nn
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.models.layers import starts
from vit_jax.models.layers.dropout import Dropout
from vit_jax.models.layers.gelu import gelu
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.layer_scale import Parameter, ScaledDense


@dataclasses.dataclass(frozen=True)
class LayerConfig:
  """Settings of every layer: the keys of `config.model` with the same names."""

  num_heads: int
  mlp_dim: int
  dropout_rate: float = 0.0
  dtype: str = "float32"
  softmax_dtype: str = "float32"
  attention: str = "xla"
  gelu: str = "tanh"
  mlp: str = "gelu"
  mlp_norm: bool = False
  layer_norm_eps: float = 1e-6
  qkv_bias: bool = True
  key_bias: bool = True
  layer_scale: float | None = None
  weight_init: str = "vit"
  depth: int = 1


class MlpBlock(nn.Module):
  """Two dense layers with a GELU between, dropout after each. Equation 3.

  With `mlp='swiglu'` the hidden units are silu(x W + b) * (x V + c), where W is
  the layer "gate" and V is "Dense_0".
  """

  config: LayerConfig
  train: bool

  @nn.compact
  def __call__(
    self, x: Float[Array, "*b d"], scale: Float[Parameter, " d"] | None = None
  ) -> Float[Array, "*b d"]:
    """Applies the MLP.

    Args:
      x: Normalised tokens.
      scale: Factor of each channel of the result; None for 1.
    """
    config = self.config
    start = starts.of(config.weight_init, config.depth)
    width = x.shape[-1]
    inner = self._dense(
      nn.Dense, config.mlp_dim, start.hidden, start.mlp_bias(width)
    )
    hidden = checkpoint_name(inner(name="Dense_0")(x), "mlp_hidden")
    if config.mlp == "swiglu":
      gate = inner(name="gate")(x)
      x = hidden * nn.silu(checkpoint_name(gate, "mlp_gate"))
    else:
      x = gelu(hidden, config.gelu)
    if config.mlp_norm:
      norm = LayerNorm(config.layer_norm_eps, config.dtype, name="LayerNorm_0")
      x = norm(x)
    x = Dropout(config.dropout_rate, deterministic=not self.train)(x)
    outer = self._dense(
      ScaledDense, width, start.outward, start.mlp_bias(config.mlp_dim)
    )
    x = outer(name="Dense_1")(x, scale)
    return Dropout(config.dropout_rate, deterministic=not self.train)(x)

  def _dense(self, layer, features, kernel_init, bias_init):
    return functools.partial(
      layer,
      features,
      dtype=self.config.dtype,
      kernel_init=lambda rng, shape, dtype: kernel_init(rng, shape, 1),
      bias_init=bias_init,
    )
