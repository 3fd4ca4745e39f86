"""The Vision Transformer of arXiv 2010.11929."""

from collections.abc import Callable
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.errors import UserError
from vit_jax.models.layers.embeddings import PatchEmbedding
from vit_jax.models.layers.encoder import Encoder
from vit_jax.models.layers.heads import LinearHead
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.layers.normalize import check_size, normalize
from vit_jax.models.layers.pooling import pool
from vit_jax.models.resnet.sizes import stem_stride
from vit_jax.models.vit import sizes
from vit_jax.models.vit.stem import stem


class ViT(nn.Module):
  """Images to logits; parameters are named as in the published checkpoints.

  Attributes:
    num_classes: outputs of the linear head; None: no head, and calls return
      the features before it.
    representation_size: hidden units of the tanh head before it; None: none.
    patch_size: side of the image that becomes one token, pixels.
    stem_blocks: units of each stage of the convolutional stem; (): its root
      alone; None: no stem.

  The others are the keys of `config.model` of the same names, with the
  variant's numbers put in.
  """

  family: ClassVar[str] = "vit"

  width: int
  depth: int
  num_heads: int
  mlp_dim: int
  patch_size: int
  num_classes: int | None
  stem_blocks: tuple[int, ...] | None = None
  stem_width: int = 64
  image_size: int = 224
  drop_remainder: bool = False
  pool: str = "cls"
  cls_token: bool | None = None
  norm_after_pool: bool = False
  representation_size: int | None = None
  pos_embedding: str = "learned_1d"
  pos_embedding_at: str = "stem"
  dropout_rate: float = 0.0
  stochastic_depth_rate: float = 0.0
  head_bias_init: float = 0.0
  dtype: str = "float32"
  softmax_dtype: str = "float32"
  attention: str = "xla"
  scan_layers: bool = False
  remat: str = "none"
  normalize: str = "minus_one_to_one"
  gelu: str = "tanh"
  layer_norm_eps: float = 1e-6
  qkv_bias: bool = True
  standardization: str = "google"

  @nn.compact
  def __call__(
    self,
    images: UInt8[Array | np.ndarray, "b h w c"]
    | Float[Array | np.ndarray, "b h w c"],
    *,
    train: bool = False,
    corrupt: Callable[[Array], Array] | None = None,
  ) -> Float[Array, "b *tokens classes"]:
    """Logits, in float32.

    Args:
      images: bytes, normalised here as `normalize` says, or floats that are.
      train: whether dropout and stochastic depth act; they draw from the flax
        stream "dropout".
      corrupt: what the embeddings of the patches, [b, n, d], become before
        they get their positions; None: they stay.

    Returns:
      [b, num_classes]; with pool 'none' the head is applied to every token,
      [b, n, num_classes]; without a head, features in place of classes.

    Raises:
      UserError: the images are not of `image_size`, or the patches do not
        cover them and `drop_remainder` is not set.
    """
    check_size(images, self.image_size)
    config = LayerConfig(
      num_heads=self.num_heads,
      mlp_dim=self.mlp_dim,
      dropout_rate=self.dropout_rate,
      dtype=self.dtype,
      softmax_dtype=self.softmax_dtype,
      attention=self.attention,
      gelu=self.gelu,
      layer_norm_eps=self.layer_norm_eps,
      qkv_bias=self.qkv_bias,
    )
    maps = normalize(images, self.normalize, self.dtype)
    if self.stem_blocks is not None:
      maps = stem(
        maps,
        self.stem_blocks,
        self.stem_width,
        self.dtype,
        self.remat,
        self.standardization,
      )
      self.sow("intermediates", "stem", maps)
    patch_size = self.patch_size // stem_stride(self.stem_blocks)
    self._check_patches(maps.shape[1], patch_size)
    grid = tuple(side // patch_size for side in maps.shape[1:3])
    tokens = PatchEmbedding(
      self.width, patch_size, self.dtype, name="embedding"
    )(maps)
    if corrupt is not None:
      tokens = corrupt(tokens)
    has_cls = sizes.has_cls(self.pool, self.cls_token)
    if has_cls:
      cls = self.param("cls", nn.initializers.zeros, (1, 1, self.width))
      cls = jnp.broadcast_to(
        cls.astype(self.dtype), (tokens.shape[0], 1, self.width)
      )
      tokens = jnp.concatenate([cls, tokens], axis=1)
    tokens = Encoder(
      config,
      self.depth,
      self.pos_embedding,
      self.pos_embedding_at,
      self.stochastic_depth_rate,
      self.scan_layers,
      self.remat,
      not self.norm_after_pool,
      name="Transformer",
    )(tokens, grid, has_cls=has_cls, train=train)
    self.sow("intermediates", "encoded", tokens)

    x = pool(tokens, self.pool, config, has_cls=has_cls, train=train)
    if self.norm_after_pool:
      x = LayerNorm(self.layer_norm_eps, self.dtype, name="fc_norm")(x)
    if self.representation_size is not None:
      x = nn.Dense(
        self.representation_size, dtype=self.dtype, name="pre_logits"
      )(x)
      x = nn.tanh(x)
    # The name "pre_logits" is the layer's, in the published checkpoints too.
    self.sow("intermediates", "representation", x)
    if self.num_classes is None:
      return x.astype(jnp.float32)
    head = LinearHead(
      self.num_classes, self.head_bias_init, self.dtype, name="head"
    )
    return head(x)

  def _check_patches(self, side, patch_size):
    if side % patch_size and not self.drop_remainder:
      size, patch = self.image_size, self.patch_size
      raise UserError(
        f"config.model.image_size = {size} is not a multiple of the patch"
        f" size {patch}; use {size // patch * patch} or"
        f" {(size // patch + 1) * patch}, or"
        " config.model.drop_remainder=True."
      )
