"""ConvNeXt (arXiv 2201.03545) and ConvNeXt V2 (arXiv 2301.00808).

Parameters: stem/{conv,norm}, stage1/block01/{depthwise,norm,expand,project} and
gamma or grn, stage2/downsample/{norm,conv}, norm, head.
"""

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.models import stages
from vit_jax.models.convnext import sizes, visible_patches
from vit_jax.models.layers import pointwise, remat_policies
from vit_jax.models.layers.convolution import BETWEEN_UNITS
from vit_jax.models.layers.depthwise import DepthwiseConv
from vit_jax.models.layers.gelu import gelu
from vit_jax.models.layers.heads import LinearHead
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.layer_scale import ScaledDense
from vit_jax.models.layers.normalize import Images, normalize
from vit_jax.models.layers.patch_conv import PatchConv
from vit_jax.models.layers.response_norm import GlobalResponseNorm
from vit_jax.models.layers.stochastic_depth import skip_examples

# Published as a normal distribution truncated at -2 and 2, a hundred deviations
# away.
INIT = nn.initializers.normal(0.02)
_GAMMA = 1e-6  # Initial factor on each block's result.

# Arrays of a block that may be kept for its backward pass: 'dots' keeps all
# products, 6 C numbers per place, 'named' those of the depthwise convolution,
# C.
_REMAT = remat_policies.by_name(
  ["depthwise"],
  dots=jax.checkpoint_policies.save_only_these_names(
    "depthwise", "expand", "project"
  ),
)


class Block(nn.Module):
  """Depthwise convolution, then two dense layers, added to the input.

  Attributes:
    drop_rate: Probability that an example skips the block; 0 outside training.
    implementation: Implementation of the depthwise convolution.

  The other attributes are the keys of `config.model` with the same names.
  """

  version: int
  layer_norm_eps: float
  dtype: str
  drop_rate: float
  implementation: str

  @nn.compact
  def __call__(
    self,
    x: Float[Array, "b h w c"],
    chosen: Float[Array, "b v rows columns"] | None = None,
  ) -> Float[Array, "b h w c"]:
    shortcut, width = x, x.shape[-1]
    if chosen is not None:
      x = visible_patches.spread(x, chosen)
    x = DepthwiseConv(
      sizes.KERNEL, INIT, self.dtype, self.implementation, name="depthwise"
    )(x)
    if chosen is not None:
      x = visible_patches.collect(x, chosen)
    x = checkpoint_name(x, "depthwise")
    x = LayerNorm(self.layer_norm_eps, self.dtype, name="norm")(x)
    x = self._dense("expand", sizes.EXPANSION * width, x)
    x = gelu(x, "exact")
    if self.version == 2:
      x = GlobalResponseNorm(self.dtype, name="grn")(x)
    gamma = None
    if self.version == 1:
      gamma = self.param("gamma", nn.initializers.constant(_GAMMA), (width,))
    x = self._dense("project", width, x, gamma)
    if self.drop_rate:
      x = skip_examples(x, self.drop_rate, self.make_rng("dropout"))
    x = nn.with_logical_constraint(shortcut + x, BETWEEN_UNITS)
    self.sow("intermediates", "map", x)
    return x

  def _dense(self, name, features, x, scale=None):
    dense = ScaledDense(
      features,
      self.dtype,
      INIT,
      dot_general=pointwise.dot_general,
      name=name,
    )
    return checkpoint_name(dense(x, scale), name)


class Stem(nn.Module):
  """Patches of the image as channels, followed by a norm."""

  width: int
  stride: int
  layer_norm_eps: float
  dtype: str

  @nn.compact
  def __call__(self, images: Float[Array, "b h w c"]) -> Array:
    x = PatchConv(self.width, self.stride, INIT, self.dtype, name="conv")(
      images
    )
    return LayerNorm(self.layer_norm_eps, self.dtype, name="norm")(x)


class Downsample(nn.Module):
  """Halves the map between two stages."""

  width: int
  layer_norm_eps: float
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Array:
    x = LayerNorm(self.layer_norm_eps, self.dtype, name="norm")(x)
    return PatchConv(self.width, 2, INIT, self.dtype, name="conv")(x)


class Stage(nn.Module):
  """Blocks of one width, preceded by downsampling in all but the first stage.

  Attributes:
    drop_rates: Probability that an example skips a block, for each block.
    implementation: Implementation of the depthwise convolutions.

  The other attributes are as in `ConvNeXt`.
  """

  width: int
  is_first: bool
  drop_rates: tuple[float, ...]
  version: int
  layer_norm_eps: float
  dtype: str
  remat: str
  implementation: str

  @nn.compact
  def __call__(
    self,
    x: Float[Array, "b h w c"],
    chosen: Float[Array, "b v rows columns"] | None,
    *,
    train: bool,
  ) -> Float[Array, "b y x k"]:
    if not self.is_first:
      x = Downsample(
        self.width, self.layer_norm_eps, self.dtype, name="downsample"
      )(x)
    block = Block
    if self.remat != "none":
      block = nn.remat(block, policy=_REMAT[self.remat])
    for i, rate in enumerate(self.drop_rates):
      x = block(
        self.version,
        self.layer_norm_eps,
        self.dtype,
        rate if train else 0.0,
        self.implementation,
        name=stages.block_name(i),
      )(x, chosen)
    return x


class ConvNeXt(nn.Module):
  """A network from images to logits.

  Attributes:
    depths: Blocks of each stage; every stage but the first halves the map.
    widths: Channels of each stage.
    num_classes: Outputs of the linear head; None for no head, so that calls
      return the pooled and normalised features.

  The other attributes are the keys of `config.model` with the same names.
  """

  family: ClassVar[str] = "convnext"

  depths: tuple[int, ...]
  widths: tuple[int, ...]
  num_classes: int | None
  version: int = 1
  stem_stride: int = 4
  image_size: int = 224
  head_bias_init: float = 0.0
  dtype: str = "float32"
  remat: str = "none"
  depthwise: str = "xla"
  normalize: str = "minus_one_to_one"
  stochastic_depth_rate: float = 0.0
  layer_norm_eps: float = 1e-6
  head_norm_eps: float = 1e-6

  def setup(self):
    self._stem = Stem(
      self.widths[0],
      self.stem_stride,
      self.layer_norm_eps,
      self.dtype,
      name="stem",
    )
    rates = iter(
      np.linspace(0, self.stochastic_depth_rate, sum(self.depths)).tolist()
    )
    self._stages = [
      Stage(
        width,
        i == 0,
        tuple(next(rates) for _ in range(depth)),
        self.version,
        self.layer_norm_eps,
        self.dtype,
        self.remat,
        self.depthwise,
        name=f"stage{i + 1}",
      )
      for i, (depth, width) in enumerate(
        zip(self.depths, self.widths, strict=True)
      )
    ]
    self._norm = LayerNorm(self.head_norm_eps, self.dtype, name="norm")
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
    """Computes the stem's map."""
    x = self._stem(normalize(images, self.normalize, self.dtype))
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    self.sow("intermediates", "stem_map", x)
    return x

  def encode(
    self,
    x: Float[Array, "b h w c"],
    chosen: Float[Array, "b v rows columns"] | None = None,
    *,
    train: bool = False,
  ) -> Float[Array, "b y x k"]:
    """Computes the last map, which is normalised only after pooling.

    Args:
      x: The map of the stem.
      chosen: Places of patches, of which alone `x` is a map, as returned by
        `visible_patches.choose`; None for whole images.
      train: True to apply stochastic depth.
    """
    for i, stage in enumerate(self._stages, 1):
      x = stage(x, chosen, train=train)
      self.sow("intermediates", f"stage{i}_map", x)
    self.sow("intermediates", "encoded", x)
    return x

  def head(self, x: Float[Array, "b y x k"]) -> Float[Array, "b classes"]:
    """Logits of a map, or its normalised mean without a head; float32."""
    x = self._norm(jnp.mean(x, axis=(1, 2), dtype=jnp.float32))
    self.sow("intermediates", "representation", x)
    return x.astype(jnp.float32) if self.num_classes is None else self._head(x)
