"""Pyramid Vision Transformer v2 (arXiv 2106.13797).

Parameters: stage1/embed/{conv,norm}, stage1/block01/{attention_norm,mlp_norm},
stage1/block01/reduced_attention/{queries,keys,values,output},
stage1/block01/reduced_attention/{reduce,reduce_norm},
stage1/block01/mlp/{expand,depthwise,project}, stage1/norm, head.
"""

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.models import stages
from vit_jax.models.layers import pointwise, remat_policies
from vit_jax.models.layers.convolution import BETWEEN_UNITS
from vit_jax.models.layers.depthwise import DepthwiseConv
from vit_jax.models.layers.gelu import gelu
from vit_jax.models.layers.heads import LinearHead
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.normalize import Images, normalize
from vit_jax.models.layers.stochastic_depth import skip_examples
from vit_jax.models.pvt import sizes
from vit_jax.models.pvt.reduced_attention import (
  CONV_INIT,
  INIT,
  ReducedAttention,
)

# Deviation sqrt(2 / places of a filter), as each group has one output.
_DEPTHWISE_INIT = nn.initializers.normal((2 / sizes.MLP_KERNEL**2) ** 0.5)


class MLP(nn.Module):
  """Two dense layers with a depthwise convolution between them.

  Attributes:
    expansion: Hidden channels over outer channels.
    is_linear: True if the block's attention is linear: negative numbers are
      then set to 0 before the convolution.
    dtype: Dtype of the products.
  """

  expansion: int
  is_linear: bool
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    width = x.shape[-1]
    dense = dict(
      dtype=self.dtype, kernel_init=INIT, dot_general=pointwise.dot_general
    )
    x = nn.Dense(self.expansion * width, name="expand", **dense)(x)
    if self.is_linear:
      x = jax.nn.relu(x)
    x = DepthwiseConv(
      sizes.MLP_KERNEL, _DEPTHWISE_INIT, self.dtype, name="depthwise"
    )(x)
    x = gelu(checkpoint_name(x, "mlp_hidden"), "exact")
    return nn.Dense(width, name="project", **dense)(x)


class Block(nn.Module):
  """Attention to a smaller map and an MLP, each added to its input.

  Attributes:
    drop_rate: Probability that an example skips a branch; 0 outside training.

  The other attributes are as in `ReducedAttention`, `MLP` and `PVT`.
  """

  num_heads: int
  reduction: int
  expansion: int
  is_linear: bool
  layer_norm_eps: float
  map_norm_eps: float
  dtype: str
  drop_rate: float

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    attention = ReducedAttention(
      self.num_heads,
      self.reduction,
      self.is_linear,
      self.map_norm_eps,
      self.dtype,
      name="reduced_attention",
    )
    x = x + self._branch("attention_norm", attention, x)
    x = checkpoint_name(x, "after_attention")
    mlp = MLP(self.expansion, self.is_linear, self.dtype, name="mlp")
    x = x + self._branch("mlp_norm", mlp, x)
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    self.sow("intermediates", "map", x)
    return x

  def _branch(self, norm_name, module, x):
    x = module(LayerNorm(self.layer_norm_eps, self.dtype, name=norm_name)(x))
    if self.drop_rate:
      x = skip_examples(x, self.drop_rate, self.make_rng("dropout"))
    return x


class Embed(nn.Module):
  """A convolution of overlapping patches, followed by a norm.

  Attributes:
    width: Channels of the result.
    kernel_size: Side of the filters, odd; half of it is the zero padding around
      the map.
    stride: Distance between filters, in places.
    epsilon: Epsilon of the norm.
    dtype: Dtype of the product.
  """

  width: int
  kernel_size: int
  stride: int
  epsilon: float
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    x = nn.Conv(
      self.width,
      (self.kernel_size,) * 2,
      strides=(self.stride,) * 2,
      padding=self.kernel_size // 2,
      dtype=self.dtype,
      kernel_init=CONV_INIT,
      name="conv",
    )(x)
    return LayerNorm(self.epsilon, self.dtype, name="norm")(x)


class Stage(nn.Module):
  """A reduction of the map, blocks of one width and a norm.

  Attributes:
    is_first: True if its input is the image.
    drop_rates: Probability that an example skips a branch, for each block.

  The other attributes are as in `PVT`.
  """

  width: int
  is_first: bool
  num_heads: int
  reduction: int
  expansion: int
  is_linear: bool
  drop_rates: tuple[float, ...]
  layer_norm_eps: float
  map_norm_eps: float
  dtype: str
  remat: str

  @nn.compact
  def __call__(
    self, x: Float[Array, "b h w c"], *, train: bool
  ) -> Float[Array, "b y x k"]:
    filters = (sizes.KERNEL, sizes.STRIDE)
    if self.is_first:
      filters = (sizes.STEM_KERNEL, sizes.STEM_STRIDE)
    x = Embed(
      self.width, *filters, self.map_norm_eps, self.dtype, name="embed"
    )(x)
    x = nn.with_logical_constraint(x, BETWEEN_UNITS)
    self.sow("intermediates", "embed_map", x)
    block = Block
    if self.remat != "none":
      block = nn.remat(block, policy=remat_policies.OF_BLOCKS[self.remat])
    for i, rate in enumerate(self.drop_rates):
      x = block(
        self.num_heads,
        self.reduction,
        self.expansion,
        self.is_linear,
        self.layer_norm_eps,
        self.map_norm_eps,
        self.dtype,
        rate if train else 0.0,
        name=stages.block_name(i),
      )(x)
    return LayerNorm(self.layer_norm_eps, self.dtype, name="norm")(x)


class PVT(nn.Module):
  """A network from images to logits.

  Attributes:
    depths: Blocks of each stage; the first divides the sides of the image by
      four, the others halve those of the map.
    widths: Channels of each stage.
    num_heads: Heads of each stage.
    reductions: Side of the map over that of its keys, for each stage.
    expansions: Hidden channels of the MLPs over outer channels, for each stage.
    num_classes: Outputs of the linear head; None for no head, so that calls
      return the pooled features.

  The other attributes are the keys of `config.model` with the same names.
  """

  family: ClassVar[str] = "pvt"

  depths: tuple[int, ...]
  widths: tuple[int, ...]
  num_heads: tuple[int, ...]
  reductions: tuple[int, ...]
  expansions: tuple[int, ...]
  num_classes: int | None
  linear_attention: bool = False
  image_size: int = 224
  head_bias_init: float = 0.0
  dtype: str = "float32"
  remat: str = "none"
  normalize: str = "minus_one_to_one"
  stochastic_depth_rate: float = 0.0
  layer_norm_eps: float = 1e-6
  map_norm_eps: float = 1e-5

  def setup(self):
    rates = iter(
      np.linspace(0, self.stochastic_depth_rate, sum(self.depths)).tolist()
    )
    self._stages = [
      Stage(
        width,
        i == 0,
        self.num_heads[i],
        self.reductions[i],
        self.expansions[i],
        self.linear_attention,
        tuple(next(rates) for _ in range(depth)),
        self.layer_norm_eps,
        self.map_norm_eps,
        self.dtype,
        self.remat,
        name=f"stage{i + 1}",
      )
      for i, (depth, width) in enumerate(
        zip(self.depths, self.widths, strict=True)
      )
    ]
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
    return self.head(self.encode(images, train=train))

  def encode(
    self, images: Images, *, train: bool = False
  ) -> Float[Array, "b y x k"]:
    """Computes the last map, normalised."""
    x = normalize(images, self.normalize, self.dtype)
    for i, stage in enumerate(self._stages, 1):
      x = stage(x, train=train)
      self.sow("intermediates", f"stage{i}_map", x)
    self.sow("intermediates", "encoded", x)
    return x

  def head(self, x: Float[Array, "b y x k"]) -> Float[Array, "b classes"]:
    """Logits of a map, or its mean without a head; float32."""
    x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32).astype(self.dtype)
    self.sow("intermediates", "representation", x)
    return x.astype(jnp.float32) if self.num_classes is None else self._head(x)
