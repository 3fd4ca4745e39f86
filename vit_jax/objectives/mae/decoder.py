"""The decoder of a masked autoencoder. [MAE] section 3, models_mae.py."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from vit_jax.models.layers import token_places
from vit_jax.models.layers.embeddings import mae_sincos2d
from vit_jax.models.layers.encoder import Encoder
from vit_jax.models.layers.mlp import LayerConfig


class Decoder(nn.Module):
  """Predicts all patches from the encoded tokens of the visible ones.

  Attributes:
    config: Settings of the layers.
    width: Width of the decoder's tokens.
    depth: Number of layers.
    grid: Patches along a side of the image.
    num_outputs: Number of values predicted per patch.
    num_prefix: Number of tokens before the patches.
    scan_layers: True if the layers are compiled as one.
    remat: A value of `config.model.remat`.
  """

  config: LayerConfig
  width: int
  depth: int
  grid: int
  num_outputs: int
  num_prefix: int
  scan_layers: bool = False
  remat: str = "none"

  @nn.compact
  def __call__(
    self, tokens: Float[Array, "b k d"], visible: Int[Array, "b v"]
  ) -> Float[Array, "b n outputs"]:
    """Returns predictions for the patches, row by row, in the compute dtype.

    Args:
      tokens: Encoded prefix tokens, followed by those of the visible patches.
      visible: Indices of these patches.
    """
    dtype, num_patches = self.config.dtype, self.grid**2
    xavier = nn.initializers.xavier_uniform()
    mask_token = self.param(
      "mask_token", nn.initializers.normal(0.02), (1, 1, self.width)
    ).astype(dtype)
    x = nn.Dense(self.width, dtype=dtype, kernel_init=xavier, name="embedding")(
      tokens.astype(dtype)
    )
    prefix, seen = x[:, : self.num_prefix], x[:, self.num_prefix :]
    ones = jnp.ones((*visible.shape, 1), dtype)
    is_visible = token_places.put(ones, visible, num_patches)
    x = token_places.put(seen, visible, num_patches)
    x = x + (1 - is_visible) * mask_token
    positions = mae_sincos2d((self.grid, self.grid), self.width)
    x = x + jnp.asarray(positions, dtype)[None]
    x = Encoder(
      self.config,
      self.depth,
      (self.grid, self.grid),
      self.num_prefix,
      pos_embedding="none",
      scan_layers=self.scan_layers,
      remat=self.remat,
      norm_dtype=dtype,
      name="Transformer",
    )(jnp.concatenate([prefix, x], axis=1), train=True)
    outputs = nn.Dense(
      self.num_outputs, dtype=dtype, kernel_init=xavier, name="prediction"
    )
    return outputs(x[:, self.num_prefix :])
