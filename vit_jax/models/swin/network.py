"""Swin Transformer (arXiv 2103.14030) and Swin V2 (arXiv 2111.09883).

Parameters: stem/{conv,norm}, stage1/block01/attention/{queries,keys,values,
output} with positions or {position_hidden,position_bias,log_scale},
stage1/block01/{attention_norm,expand,project,mlp_norm},
stage1/merge/{norm,reduction}, norm, head.
"""

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.models import stages
from vit_jax.models.layers import placement, remat_policies
from vit_jax.models.layers.convolution import BETWEEN_UNITS
from vit_jax.models.layers.gelu import gelu
from vit_jax.models.layers.heads import LinearHead
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.normalize import Images, normalize
from vit_jax.models.layers.patch_conv import PatchConv, strided_conv
from vit_jax.models.layers.stochastic_depth import skip_examples
from vit_jax.models.swin import sizes
from vit_jax.models.swin.window_attention import INIT, WindowAttention

_EPSILON = 1e-5  # Epsilon of all norms.


class Block(nn.Module):
  """Attention within windows and an MLP, each added to its input.

  Version 1 normalises the input of a branch, version 2 its output.

  Attributes:
    drop_rate: Probability that an example skips a branch; 0 outside training.

  The other attributes are as in `WindowAttention`.
  """

  num_heads: int
  window: int
  shift: int
  version: int
  pretrained_window: int
  dtype: str
  attention: str
  pad_before_shift: bool
  drop_rate: float

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    attention = WindowAttention(
      self.num_heads,
      self.window,
      self.shift,
      self.version,
      self.pretrained_window,
      self.dtype,
      self.attention,
      self.pad_before_shift,
      name="attention",
    )
    x = x + self._branch("attention_norm", attention, x)
    x = checkpoint_name(x, "after_attention")
    x = x + self._branch("mlp_norm", self._mlp, x)
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    self.sow("intermediates", "map", x)
    return x

  def _branch(self, norm_name, function, x):
    # Blocks of version 2 are initially the identity.
    init = nn.initializers.ones if self.version == 1 else nn.initializers.zeros
    norm = LayerNorm(_EPSILON, self.dtype, init, name=norm_name)
    x = function(norm(x)) if self.version == 1 else norm(function(x))
    if self.drop_rate:
      x = skip_examples(x, self.drop_rate, self.make_rng("dropout"))
    return x

  def _mlp(self, x):
    width = x.shape[-1]
    dense = dict(dtype=self.dtype, kernel_init=INIT)
    x = nn.Dense(sizes.EXPANSION * width, name="expand", **dense)(x)
    x = gelu(checkpoint_name(x, "mlp_hidden"), "exact")
    return nn.Dense(width, name="project", **dense)(x)


class Stem(nn.Module):
  """Patches of the image as channels, followed by a norm."""

  width: int
  patch_size: int
  dtype: str

  @nn.compact
  def __call__(self, images: Float[Array, "b h w c"]) -> Array:
    padding = [(0, -side % self.patch_size) for side in images.shape[1:3]]
    x = jnp.pad(images, ((0, 0), *padding, (0, 0)))
    x = PatchConv(self.width, self.patch_size, INIT, self.dtype, name="conv")(x)
    return LayerNorm(_EPSILON, self.dtype, name="norm")(x)


class PatchMerging(nn.Module):
  """Halves the map and doubles the channels between two stages."""

  version: int
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Array:
    _, height, width, channels = x.shape
    x = jnp.pad(x, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)))
    x = _join_places(x)
    norm = LayerNorm(_EPSILON, self.dtype, name="norm")
    reduction = nn.Dense(
      2 * channels,
      use_bias=False,
      dtype=self.dtype,
      kernel_init=INIT,
      name="reduction",
    )
    return reduction(norm(x)) if self.version == 1 else norm(reduction(x))


def _join_places(x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
  """The channels of 2 x 2 places side by side, k = 4 c.

  Published with the places of a column next to each other.
  """
  batch, height, width, channels = x.shape
  if placement.platform() == "tpu":
    # A product with ones moves channels much faster. It is exact, in float32
    # with the highest precision.
    ones = jnp.eye(4 * channels, dtype=x.dtype).reshape(2, 2, channels, -1)
    return strided_conv(x, ones.swapaxes(0, 1), jax.lax.Precision.HIGHEST)
  x = x.reshape(batch, height // 2, 2, width // 2, 2, channels)
  x = x.transpose(0, 1, 3, 4, 2, 5)
  return x.reshape(batch, height // 2, width // 2, -1)


class Stage(nn.Module):
  """Blocks of one width; returns their map and the input of the next stage.

  Attributes:
    drop_rates: Probability that an example skips a branch, for each block.
    is_last: True if no stage follows.

  The other attributes are as in `WindowAttention`; every other block is
  shifted.
  """

  num_heads: int
  window: int
  shift: int
  version: int
  pretrained_window: int
  dtype: str
  attention: str
  pad_before_shift: bool
  drop_rates: tuple[float, ...]
  is_last: bool
  remat: str

  @nn.compact
  def __call__(
    self, x: Float[Array, "b h w c"], *, train: bool
  ) -> tuple[Float[Array, "b h w c"], Float[Array, "b y x k"]]:
    block = Block
    if self.remat != "none":
      block = nn.remat(block, policy=remat_policies.OF_BLOCKS[self.remat])
    for i, rate in enumerate(self.drop_rates):
      x = block(
        self.num_heads,
        self.window,
        self.shift if i % 2 else 0,
        self.version,
        self.pretrained_window,
        self.dtype,
        self.attention,
        self.pad_before_shift,
        rate if train else 0.0,
        name=stages.block_name(i),
      )(x)
    if self.is_last:
      return x, x
    merged = PatchMerging(self.version, self.dtype, name="merge")(x)
    return x, nn.with_logical_constraint(merged, BETWEEN_UNITS)


class Swin(nn.Module):
  """A network from images to logits.

  Windows and their shifts are those for images of `image_size`; other images
  are padded to whole windows.

  Attributes:
    depths: Blocks of each stage; every stage but the first halves the map and
      doubles the channels.
    num_heads: Heads of each stage.
    width: Channels of the first stage.
    num_classes: Outputs of the linear head; None for no head, so that calls
      return the pooled features.

  The other attributes are the keys of `config.model` with the same names.
  """

  family: ClassVar[str] = "swin"

  depths: tuple[int, ...]
  num_heads: tuple[int, ...]
  width: int
  num_classes: int | None
  version: int = 1
  patch_size: int = 4
  window_size: int = 7
  pretrained_window_sizes: tuple[int, ...] | None = None
  pad_before_shift: bool = True
  image_size: int = 224
  head_bias_init: float = 0.0
  dtype: str = "float32"
  attention: str = "xla"
  remat: str = "none"
  normalize: str = "minus_one_to_one"
  pos_embedding_resize: str = "bilinear"
  stochastic_depth_rate: float = 0.0

  def setup(self):
    self._stem = Stem(self.width, self.patch_size, self.dtype, name="stem")
    size = sizes.SwinSize(
      self.depths,
      self.num_heads,
      self.width,
      self.patch_size,
      self.window_size,
      self.version,
    )
    windows, shifts = (
      size.windows(self.image_size),
      size.shifts(self.image_size),
    )
    pretrained = self.pretrained_window_sizes or (0,) * len(self.depths)
    rates = iter(
      np.linspace(0, self.stochastic_depth_rate, sum(self.depths)).tolist()
    )
    self._stages = [
      Stage(
        self.num_heads[i],
        windows[i],
        shifts[i],
        self.version,
        pretrained[i] or windows[i],
        self.dtype,
        self.attention,
        self.pad_before_shift,
        tuple(next(rates) for _ in range(depth)),
        i + 1 == len(self.depths),
        self.remat,
        name=f"stage{i + 1}",
      )
      for i, depth in enumerate(self.depths)
    ]
    self._norm = LayerNorm(_EPSILON, self.dtype, name="norm")
    if self.num_classes is not None:
      self._head = LinearHead(
        self.num_classes, self.head_bias_init, self.dtype, name="head"
      )

  def __call__(
    self, images: Images, *, train: bool = False
  ) -> Float[Array, "b classes"]:
    """Computes logits in float32.

    Args:
      images: Bytes, normalised here according to `normalize`, or floats that
        are already normalised; of any size.
      train: True to apply stochastic depth.
    """
    return self.head(self.encode(self.embed(images), train=train))

  def embed(self, images: Images) -> Float[Array, "b y x k"]:
    """Computes the normalised patches."""
    x = self._stem(normalize(images, self.normalize, self.dtype))
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    self.sow("intermediates", "stem_map", x)
    return x

  def encode(
    self, x: Float[Array, "b h w c"], *, train: bool = False
  ) -> Float[Array, "b y x k"]:
    """Computes the last map, normalised."""
    for i, stage in enumerate(self._stages, 1):
      result, x = stage(x, train=train)
      self.sow("intermediates", f"stage{i}_map", result)
    x = self._norm(x)
    self.sow("intermediates", "encoded", x)
    return x

  def head(self, x: Float[Array, "b y x k"]) -> Float[Array, "b classes"]:
    """Logits of a map, or its mean without a head; float32."""
    x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32).astype(self.dtype)
    self.sow("intermediates", "representation", x)
    return x.astype(jnp.float32) if self.num_classes is None else self._head(x)
