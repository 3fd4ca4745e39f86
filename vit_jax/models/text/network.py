"""The text tower of CLIP (arXiv 2103.00020) and SigLIP (arXiv 2303.15343)."""

import dataclasses

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from vit_jax.models.layers.encoder import Encoder
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.layers.pooling import MAPHead
from vit_jax.models.layers.position_add import add_positions
from vit_jax.models.text import sizes


class TextTransformer(nn.Module):
  """A network from tokens to one feature per text.

  Attributes:
    dtype: Compute dtype.
    remat: As `config.model.remat`.

  The other attributes are the keys of `config.model.text` with the same names,
  completed by the variant's numbers.
  """

  width: int
  depth: int
  num_heads: int
  mlp_dim: int
  vocab_size: int
  length: int
  causal: bool = False
  pool: str = "last"
  eot_token: int | None = None
  embedding_stddev: float | str = "width"
  pos_embedding_stddev: float | str = "width"
  weight_init: str = "vit"
  dropout_rate: float = 0.0
  gelu: str = "tanh"
  layer_norm_eps: float = 1e-6
  softmax_dtype: str = "float32"
  scan_layers: bool = False
  dtype: str = "float32"
  remat: str = "none"

  @nn.compact
  def __call__(
    self, tokens: Int[Array, "b n"], *, train: bool = False
  ) -> Float[Array, "b d"]:
    """Computes the feature of each text, float32.

    Args:
      tokens: Ids, padded as by the tokenizer; at most `length` per text.
      train: True to apply dropout, which draws from the stream "dropout".
    """
    embedding = nn.Embed(
      self.vocab_size,
      self.width,
      dtype=self.dtype,
      embedding_init=nn.initializers.normal(
        self._stddev(self.embedding_stddev)
      ),
      name="token_embedding",
    )
    positions = self.param(
      "pos_embedding",
      nn.initializers.normal(self._stddev(self.pos_embedding_stddev)),
      (1, self.length, self.width),
    )
    batch, length = tokens.shape
    x = add_positions(embedding(tokens), positions[0, :length])
    mask = None
    if self.causal:
      mask = jnp.tril(jnp.ones((length, length), bool))
      mask = jnp.broadcast_to(mask[None], (batch, length, length))
    config = self._layer_config()
    x = Encoder(
      config,
      self.depth,
      (1, length),
      0,
      pos_embedding="none",
      scan_layers=self.scan_layers,
      remat=self.remat,
      name="Transformer",
    )(x, None, mask, train=train, read_at=self._read_at(tokens))
    return self._pooled(x, config).astype(jnp.float32)

  def _read_at(self, tokens):
    """Place of the single token read in each text; None if all are read."""
    if not sizes.reads_one(self.pool):
      return None
    if self.pool == "last":
      return jnp.full(tokens.shape[:1], tokens.shape[1] - 1)
    is_end = tokens if self.eot_token is None else tokens == self.eot_token
    # The first one in case of ties.
    return jnp.argmax(is_end, axis=1)

  def _pooled(self, x, config):
    if self.pool == "map":
      return MAPHead(
        dataclasses.replace(config, dtype="float32"), name="MAPHead_0"
      )(x)
    return jnp.mean(x, axis=1)  # Of the token read, or of all.

  def _stddev(self, stddev):
    return self.width**-0.5 if stddev == "width" else stddev

  def _layer_config(self):
    fields = {field.name for field in dataclasses.fields(LayerConfig)}
    own = {field.name for field in dataclasses.fields(self)}
    shared = {name: getattr(self, name) for name in fields & own}
    if self.weight_init == "clip":
      shared["weight_init"] = "clip_text"
    return LayerConfig(**shared)
