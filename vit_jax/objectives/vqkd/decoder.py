"""The decoder of VQ-KD: modeling_vqkd.py in microsoft/unilm, beit2."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers import starts
from vit_jax.models.layers.embeddings import PatchEmbedding
from vit_jax.models.layers.encoder import Encoder
from vit_jax.models.layers.mlp import LayerConfig


class Decoder(nn.Module):
  """Predicts a teacher's features from codes, which it sees as 1 x 1 patches.

  Attributes:
    config: Settings of the layers, whose `weight_init` is "deit".
    width: Width of the layers.
    depth: Number of layers.
    grid: Patches along a side of the image.
    num_outputs: Dimension of the teacher's features.
    scan_layers: True if the layers are compiled as one.
    remat: A value of `config.model.remat`.
  """

  config: LayerConfig
  width: int
  depth: int
  grid: int
  num_outputs: int
  scan_layers: bool = False
  remat: str = "none"

  @nn.compact
  def __call__(
    self, codes: Float[Array, "b n c"]
  ) -> Float[Array, "b n outputs"]:
    """Returns predictions for the patches, row by row, in the compute dtype."""
    dtype, start = self.config.dtype, starts.of("deit", self.depth)
    maps = codes.reshape(len(codes), self.grid, self.grid, -1).astype(dtype)
    x = PatchEmbedding(self.width, 1, dtype, start=start, name="embedding")(
      maps
    )
    token = self.param("cls", start.token(self.width), (1, 1, self.width))
    token = jnp.broadcast_to(token.astype(dtype), (len(x), 1, self.width))
    encoder = Encoder(
      self.config,
      self.depth,
      (self.grid, self.grid),
      1,
      scan_layers=self.scan_layers,
      remat=self.remat,
      norm_dtype=dtype,
      name="Transformer",
    )
    x = encoder.add_positions(jnp.concatenate([token, x], axis=1))
    x = encoder(x, train=True)[:, 1:]
    dense = _dense(self.width, dtype, "hidden")
    return _dense(self.num_outputs, dtype, "prediction")(nn.tanh(dense(x)))


def _dense(outputs: int, dtype: str, name: str) -> nn.Dense:
  normal = nn.initializers.normal(0.02)
  return nn.Dense(outputs, dtype=dtype, kernel_init=normal, name=name)
