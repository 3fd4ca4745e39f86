"""The Vision Transformer of arXiv 2010.11929."""

import dataclasses
import functools
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from vit_jax.errors import UserError
from vit_jax.models.layers import starts
from vit_jax.models.layers.embeddings import PatchEmbedding
from vit_jax.models.layers.encoder import Encoder
from vit_jax.models.layers.heads import HEADS, LinearHead
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.layers.normalize import Images, normalize
from vit_jax.models.layers.pooling import MAPHead, mean
from vit_jax.models.resnet.sizes import stem_stride
from vit_jax.models.vit import sizes
from vit_jax.models.vit.stem import Stem

# From facebookresearch/dinov2, also for its class token.
_REGISTERS_STDDEV = 1e-6


class ViT(nn.Module):
  """A network from images to logits, with published parameter names.

  Calling it composes `embed`, `encode` and `head`, which objectives also call
  separately.

  Attributes:
    num_classes: Outputs of the linear head; None for no head, so that calls
      return the features before it.
    representation_size: Hidden units of the tanh layer before the head; None
      for no such layer.
    patch_size: Side of the part of the image that becomes one token, pixels.
    stem_blocks: Units of each stage of the convolutional stem; () for its root
      only, None for no stem.

  The other attributes are the keys of `config.model` with the same names,
  completed by the variant's numbers.
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
  registers: int = 0
  distillation: str = "none"
  norm_after_pool: bool = False
  representation_size: int | None = None
  pos_embedding: str = "learned_1d"
  pos_embedding_stddev: float | str = 0.02
  pos_embedding_init: str = "normal"
  cls_position: bool = True
  pos_embedding_at: str = "stem"
  pos_embedding_resize: str = "bilinear"
  rope: bool = False
  rope_grid: int | None = 16
  rope_base: float = 10_000.0
  rope_coordinates: str = "patches"
  dropout_rate: float = 0.0
  stochastic_depth_rate: float = 0.0
  stochastic_depth: str = "linear"
  stochastic_depth_group: int | None = None
  layer_scale: float | None = None
  head_bias_init: float = 0.0
  dtype: str = "float32"
  head_dtype: str = "float32"
  softmax_dtype: str = "float32"
  attention: str = "xla"
  scan_layers: bool = False
  remat: str = "none"
  normalize: str = "minus_one_to_one"
  gelu: str = "tanh"
  layer_norm_eps: float = 1e-6
  mlp: str = "gelu"
  mlp_norm: bool = False
  qkv_bias: bool = True
  key_bias: bool = True
  patch_bias: bool = True
  pre_norm: bool = False
  standardization: str = "google"
  weight_init: str = "vit"

  def setup(self):
    if self.stem_blocks is not None:
      self._stem = Stem(
        self.stem_blocks,
        self.stem_width,
        self.dtype,
        self.remat,
        self.standardization,
      )
      # The published names have no level for the stem.
      nn.share_scope(self, self._stem)
    start = starts.of(self.weight_init, self.depth)
    self._embedding = PatchEmbedding(
      self.width,
      self._map_patch,
      self.dtype,
      self.patch_bias,
      start,
      name="embedding",
    )
    if self.pre_norm:
      self._norm_pre = LayerNorm(
        self.layer_norm_eps, self.dtype, name="norm_pre"
      )
    names = ["cls"] if sizes.has_cls(self.pool, self.cls_token) else []
    names += [] if self.distillation == "none" else ["dist"]
    shape, token = (1, 1, self.width), start.token(self.width)
    prefix = [self.param(name, token, shape) for name in names]
    if self.registers:
      # Small but different values: registers have no positions to distinguish
      # them.
      init = nn.initializers.normal(_REGISTERS_STDDEV)
      shape = (1, self.registers, self.width)
      prefix.append(self.param("registers", init, shape))
    self._prefix = prefix
    config = self.layer_config()
    stddev = self.pos_embedding_stddev
    self._encoder = Encoder(
      config,
      self.depth,
      self._grid(self.image_size, self.image_size),
      self.num_prefix,
      self.cls_position,
      self.width**-0.5 if stddev == "width" else stddev,
      self.pos_embedding_init,
      self.pos_embedding,
      self.pos_embedding_at,
      self.pos_embedding_resize,
      self.stochastic_depth_rate,
      self.stochastic_depth,
      self.stochastic_depth_group,
      self.scan_layers,
      self.remat,
      None if self.norm_after_pool else self.head_dtype,
      self.registers,
      self.rope,
      self.rope_grid,
      self.rope_base,
      self.rope_coordinates,
      name="Transformer",
    )
    if self.pool == "map":
      self._map_head = MAPHead(
        dataclasses.replace(config, dtype=self.head_dtype), name="MAPHead_0"
      )
    if self.norm_after_pool:
      self._fc_norm = LayerNorm(
        self.layer_norm_eps, self.head_dtype, name="fc_norm"
      )
    if self.representation_size is not None:
      # Published checkpoints use this name for the layer too.
      self._pre_logits = nn.Dense(
        self.representation_size, dtype=self.head_dtype, name="pre_logits"
      )
    if self.num_classes is not None:
      head = functools.partial(
        LinearHead,
        self.num_classes,
        self.head_bias_init,
        self.head_dtype,
        start.head,
      )
      self._head = head(name="head")
      if self.distillation == "average":
        self._distillation_head = head(name="head_dist")

  def __call__(
    self,
    images: Images,
    *,
    train: bool = False,
  ) -> Float[Array, "b *tokens classes"]:
    """Computes logits in float32.

    Args:
      images: Bytes, normalised here according to `normalize`, or floats that
        are already normalised; of any size that patches cover. For sizes other
        than `image_size`, positions are resized.
      train: True to apply dropout and stochastic depth, which draw from the
        flax stream "dropout".

    Returns:
      [b, num_classes]; with pool 'none' the head is applied to every token, [b,
      n, num_classes]; without a head, features instead of classes.

    Raises:
      UserError: The patches do not cover the images and `drop_remainder` is not
        set, or `normalize` rejects the images.
    """
    patches = self.embed_patches(images)
    grid = self.patch_grid(*images.shape[1:3])
    tokens = self.add_prefix(patches, grid)
    tokens = self.encode(tokens, grid=grid, train=train, num_read=self.num_read)
    return self.head(tokens)

  def embed(self, images: Images) -> Float[Array, "b n d"]:
    """Computes tokens with positions: prefix, then patches row by row."""
    patches = self.embed_patches(images)
    return self.add_prefix(patches, self.patch_grid(*images.shape[1:3]))

  def embed_patches(self, images: Images) -> Float[Array, "b n d"]:
    """Computes embeddings of the patches, row by row, without positions."""
    maps = normalize(images, self.normalize, self.dtype)
    self.patch_grid(*images.shape[1:3])
    if self.stem_blocks is not None:
      maps = self._stem(maps)
      self.sow("intermediates", "stem", maps)
    return self._embedding(maps)

  def add_prefix(
    self, patches: Float[Array, "b n d"], grid: tuple[int, int] | None = None
  ) -> Float[Array, "b m d"]:
    """Prepends the prefix tokens to the patches and adds positions to all.

    Args:
      patches: Embeddings of all patches of an image, row by row.
      grid: Rows and columns of the patches; None for those of `image_size`.
    """
    prefix = [
      jnp.broadcast_to(
        token.astype(self.dtype), (patches.shape[0], *token.shape[1:])
      )
      for token in self._prefix
    ]
    tokens = patches
    if prefix:
      tokens = jnp.concatenate([*prefix, patches], axis=1)
    return self._encoder.add_positions(tokens, grid)

  def encode(
    self,
    tokens: Float[Array, "b n d"],
    *,
    grid: tuple[int, int] | None = None,
    mask: Bool[Array, "b n"] | Bool[Array, "b n n"] | None = None,
    train: bool = False,
    num_read: int | None = None,
    read_at: Int[Array, "b r"] | None = None,
  ) -> Float[Array, "b r d"]:
    """Encodes any number of tokens, such as those left visible by a mask.

    Args:
      tokens: Tokens with positions, all or some of those from `embed`.
      grid: Rows and columns of the patches, if positions are relative, rotary
        or added at every layer; None for those of `image_size`.
      mask: True for the tokens to attend to, shared by all tokens or separate
        for each; None for all tokens.
      train: True to apply dropout and stochastic depth.
      num_read: Number of leading tokens that the caller reads; None for all.
      read_at: Places of the tokens that the caller reads, instead of
        `num_read`.

    Returns:
      The tokens of the last layer, normalised unless `norm_after_pool`: all,
      at least `num_read`, or those at `read_at`.
    """
    if self.pre_norm:
      tokens = self._norm_pre(tokens)
    tokens = self._encoder(
      tokens, grid, mask, train=train, num_read=num_read, read_at=read_at
    )
    self.sow("intermediates", "encoded", tokens)
    return tokens

  def head(
    self,
    tokens: Float[Array, "b n d"],
    *,
    pool: str | None = None,
    mask: Bool[Array, "b n"] | None = None,
  ) -> Float[Array, "b *tokens classes"]:
    """Computes logits of encoded tokens, or features without a head; float32.

    Args:
      tokens: Encoded tokens, prefix tokens first.
      pool: Pooling of tokens to one feature; None for the model's own. 'none'
        keeps a feature for each token.
      mask: True for the patches that are averaged and the tokens that 'map'
        attends to; None for all.
    """
    pool = pool or self.pool
    x = tokens = tokens.astype(self.head_dtype)
    if pool == "cls":
      x = tokens[:, 0]
      if self.distillation == "average":
        return self._average(x, tokens[:, 1])
    elif pool in ("gap", "cls_gap"):
      start = self.num_prefix
      x = mean(tokens[:, start:], None if mask is None else mask[:, start:])
      if pool == "cls_gap":
        x = jnp.concatenate([tokens[:, 0], x], axis=1)
    elif pool == "map":
      start = self.registers
      x = self._map_head(
        tokens[:, start:], None if mask is None else mask[:, start:]
      )
    if self.norm_after_pool:
      x = self._fc_norm(x)
    if self.representation_size is not None:
      x = nn.tanh(self._pre_logits(x))
    self.sow("intermediates", "representation", x)
    return x.astype(jnp.float32) if self.num_classes is None else self._head(x)

  def _average(self, class_token, distillation_token):
    """Mean of both heads; the logits of each are sown in `HEADS`."""
    if self.norm_after_pool:
      class_token, distillation_token = map(
        self._fc_norm, (class_token, distillation_token)
      )
    x = (class_token + distillation_token) / 2
    self.sow("intermediates", "representation", x)
    if self.num_classes is None:
      return x.astype(jnp.float32)
    logits = self._head(class_token)
    distilled = self._distillation_head(distillation_token)
    self.sow(HEADS, "class", logits)
    self.sow(HEADS, "distillation", distilled)
    return (logits + distilled) / 2

  @property
  def num_read(self) -> int | None:
    """Number of leading tokens that `head` reads; None for all."""
    return sizes.num_read(self.pool, self.distillation)

  @property
  def num_prefix(self) -> int:
    """Number of tokens before the patches: class, distillation, registers."""
    has_cls = sizes.has_cls(self.pool, self.cls_token)
    return has_cls + (self.distillation != "none") + self.registers

  def patch_grid(self, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of the patches of an image.

    Args:
      height: Height of the image, pixels.
      width: Width of the image, pixels.

    Raises:
      UserError: The patches do not cover the image and `drop_remainder` is
        not set.
    """
    size, patch = self.image_size, self.patch_size
    stride, map_patch = self._stem_stride, self._map_patch
    rest = [-(-side // stride) % map_patch for side in (height, width)]
    below = patch * max(1, size // patch)
    multiples = f"{below} or {below + patch}"
    if any(rest) and not self.drop_remainder and height == width == size:
      raise UserError(
        f"config.model.image_size = {size} is not a multiple of the patch"
        f" size {patch}; use {multiples}, or config.model.drop_remainder=True."
      )
    grid = self._grid(height, width)
    if (any(rest) and not self.drop_remainder) or min(grid) < 1:
      raise UserError(
        f"The images are {height} x {width} pixels, which patches of {patch} x"
        f" {patch} do not cover; resize them to {size} x {size}"
        " (config.model.image_size), or to multiples of the patch."
      )
    return grid

  def _grid(self, height, width):
    stride = self._stem_stride
    return tuple(
      -(-side // stride) // self._map_patch for side in (height, width)
    )

  @property
  def _stem_stride(self):
    return stem_stride(self.stem_blocks)

  @property
  def _map_patch(self):
    """Side of a patch on the stem's maps."""
    return self.patch_size // self._stem_stride

  def layer_config(self) -> LayerConfig:
    """Returns the settings of its layers."""
    fields = dataclasses.fields(LayerConfig)
    return LayerConfig(**{one.name: getattr(self, one.name) for one in fields})
