"""A straightforward ViT of Flax's own layers: baseline and oracle.

The benchmark of the step compares with it, and tests hold `ViT` to its
results; nothing trains it. Its parameters are those of `ViT` with pool 'cls'
and learned 1-D position embeddings.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.benchmarking.plain_resnet import plain_stem
from vit_jax.models.resnet.sizes import stem_stride


class PlainViT(nn.Module):
  """Normalised float images to logits; attributes as `ViT`'s.

  A stem of residual blocks is in float32 whatever `dtype` is.
  """

  width: int
  depth: int
  num_heads: int
  mlp_dim: int
  patch_size: int
  num_classes: int
  stem_blocks: tuple[int, ...] | None = None
  stem_width: int = 64
  dropout_rate: float = 0.0
  dtype: str = "float32"
  softmax_dtype: str = "float32"
  gelu: str = "tanh"

  @nn.compact
  def __call__(
    self, images: Float[Array, "b h w c"], *, train: bool = False
  ) -> Float[Array, "b classes"]:
    x, patch = images, self.patch_size // stem_stride(self.stem_blocks)
    if self.stem_blocks is not None:
      x = plain_stem(x, self.stem_blocks, self.stem_width)
    patches = (patch, patch)
    x = nn.Conv(
      self.width,
      patches,
      strides=patches,
      padding="VALID",
      dtype=self.dtype,
      name="embedding",
    )(x)
    x = x.reshape(x.shape[0], -1, self.width)
    cls = self.param("cls", nn.initializers.zeros, (1, 1, self.width))
    cls = jnp.tile(cls.astype(x.dtype), (x.shape[0], 1, 1))
    x = jnp.concatenate([cls, x], axis=1)
    x = PlainEncoder(
      self.depth,
      self.num_heads,
      self.mlp_dim,
      self.dropout_rate,
      self.dtype,
      self.softmax_dtype,
      self.gelu,
      name="Transformer",
    )(x, train)
    head = nn.Dense(
      self.num_classes,
      dtype=self.dtype,
      kernel_init=nn.initializers.zeros,
      name="head",
    )
    return head(x[:, 0]).astype(jnp.float32)


class PlainEncoder(nn.Module):
  depth: int
  num_heads: int
  mlp_dim: int
  dropout_rate: float
  dtype: str
  softmax_dtype: str
  gelu: str

  @nn.compact
  def __call__(
    self, x: Float[Array, "b n d"], train: bool
  ) -> Float[Array, "b n d"]:
    x = PlainPositionEmbedding(name="posembed_input")(x)
    x = nn.Dropout(self.dropout_rate, deterministic=not train)(x)
    for i in range(self.depth):
      x = PlainBlock(
        self.num_heads,
        self.mlp_dim,
        self.dropout_rate,
        self.dtype,
        self.softmax_dtype,
        self.gelu,
        name=f"encoderblock_{i}",
      )(x, train)
    return nn.LayerNorm(dtype=self.dtype, name="encoder_norm")(x)


class PlainPositionEmbedding(nn.Module):
  @nn.compact
  def __call__(self, x: Float[Array, "b n d"]) -> Float[Array, "b n d"]:
    init = nn.initializers.normal(0.02)
    positions = self.param("pos_embedding", init, (1, *x.shape[1:]))
    return x + positions.astype(x.dtype)


class PlainBlock(nn.Module):
  num_heads: int
  mlp_dim: int
  dropout_rate: float
  dtype: str
  softmax_dtype: str
  gelu: str

  @nn.compact
  def __call__(
    self, x: Float[Array, "b n d"], train: bool
  ) -> Float[Array, "b n d"]:
    y = nn.LayerNorm(dtype=self.dtype, name="LayerNorm_0")(x)
    y = nn.MultiHeadDotProductAttention(
      self.num_heads,
      dtype=self.dtype,
      kernel_init=nn.initializers.xavier_uniform(),
      attention_fn=functools.partial(plain_attention, self.softmax_dtype),
      name="MultiHeadDotProductAttention_0",
    )(y, y)
    x = x + nn.Dropout(self.dropout_rate, deterministic=not train)(y)
    y = nn.LayerNorm(dtype=self.dtype, name="LayerNorm_1")(x)
    mlp = PlainMlp(
      self.mlp_dim, self.dropout_rate, self.dtype, self.gelu, name="MlpBlock_0"
    )
    return x + mlp(y, train)


def plain_attention(
  softmax_dtype: str,
  query: Float[Array, "b q heads k"],
  key: Float[Array, "b n heads k"],
  value: Float[Array, "b n heads k"],
) -> Float[Array, "b q heads k"]:
  """As Flax's, whose float32 softmax makes the second product float32 too."""
  query = query / jnp.sqrt(query.shape[-1]).astype(query.dtype)
  scores = jnp.einsum("bqhk,bnhk->bhqn", query, key).astype(softmax_dtype)
  weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
  return jnp.einsum("bhqn,bnhk->bqhk", weights, value)


class PlainMlp(nn.Module):
  mlp_dim: int
  dropout_rate: float
  dtype: str
  gelu: str

  @nn.compact
  def __call__(
    self, x: Float[Array, "b n d"], train: bool
  ) -> Float[Array, "b n d"]:
    width = x.shape[-1]
    settings = dict(
      dtype=self.dtype,
      kernel_init=nn.initializers.xavier_uniform(),
      bias_init=nn.initializers.normal(1e-6),
    )
    x = nn.gelu(nn.Dense(self.mlp_dim, **settings)(x), self.gelu == "tanh")
    x = nn.Dropout(self.dropout_rate, deterministic=not train)(x)
    x = nn.Dense(width, **settings)(x)
    return nn.Dropout(self.dropout_rate, deterministic=not train)(x)
