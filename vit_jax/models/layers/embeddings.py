"""Embeddings of patches and of the positions of tokens."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vit_jax.models.layers import position_resize
from vit_jax.models.layers.starts import VIT, Start


class PatchEmbedding(nn.Module):
  """x_p E + b: a convolution of stride `patch_size`, as one matrix product.

  Pixels beyond the last whole patch are dropped.
  """

  width: int
  patch_size: int
  dtype: str
  use_bias: bool = True
  start: Start = VIT

  @nn.compact
  def __call__(self, images: Float[Array, "b h w c"]) -> Float[Array, "b n d"]:
    batch, height, width, channels = images.shape
    patch = self.patch_size
    rows, columns = height // patch, width // patch
    kernel = self.param(
      "kernel", self.start.patch, (patch, patch, channels, self.width), 3
    )
    x = images[:, : rows * patch, : columns * patch]
    x = x.reshape(batch, rows, patch, columns, patch, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows * columns, -1)
    kernel = kernel.astype(self.dtype).reshape(-1, self.width)
    x = jnp.matmul(x, kernel)
    if not self.use_bias:
      return x
    bias_init = self.start.patch_bias(patch**2 * channels)
    bias = self.param("bias", bias_init, (self.width,))
    return x + bias.astype(self.dtype)[None, None]


class PositionEmbedding(nn.Module):
  """Tables added to the tokens, in float32.

  Attributes:
    kind: 'learned_1d': One row per token. 'learned_2d': A table of width D / 2
      for columns (X) and one for rows (Y), concatenated; prefix tokens have
      their own rows. 'sincos2d': Fixed, zero for prefix tokens.
    num_tables: Number of learned tables, one for each place where one is added.
    resize: Method to resize learned tables to another grid, a value of
      `config.model.pos_embedding_resize`.
    stddev: Initial standard deviation of learned tables.
    start: 'normal', or 'sincos2d': a table of 'learned_1d' starts from the
      sines and cosines of MAE, with zeros for prefix tokens.
  """

  kind: str
  num_tables: int = 1
  resize: str = "bilinear"
  stddev: float = 0.02
  start: str = "normal"

  @nn.compact
  def __call__(
    self,
    grid: tuple[int, int],
    width: int,
    num_prefix: int,
    to: tuple[int, int] | None = None,
  ) -> Float[Array, "tables n d"]:
    """Returns the tables for a grid of patches.

    Args:
      grid: Rows and columns of patches that the parameters are for.
      width: Width D of the tokens.
      num_prefix: Number of tokens before the patches with their own positions.
      to: Rows and columns of patches wanted; None for `grid`.
    """
    to = to or grid
    if self.kind == "sincos2d":
      fixed = np.pad(sincos2d(to, width), ((int(num_prefix), 0), (0, 0)))
      return jnp.asarray(np.tile(fixed[None], (self.num_tables, 1, 1)))
    init = nn.initializers.normal(self.stddev)
    if self.kind == "learned_1d":
      if self.start == "sincos2d":
        fixed = mae_sincos2d(grid, width)

        def init(rng, shape):
          del rng
          table = np.pad(fixed, ((int(num_prefix), 0), (0, 0)))
          return jnp.broadcast_to(table, shape)

      num_tokens = grid[0] * grid[1] + num_prefix
      shape = (self.num_tables, num_tokens, width)
      table = jnp.asarray(self.param("pos_embedding", init, shape))
      if to == grid:
        return table
      patches = table[:, num_prefix:].reshape(self.num_tables, *grid, width)
      # An unchanged side is not skipped: `bicubic_offset` changes it too.
      patches = _weighted(patches, 1, to[0], self.resize)
      patches = _weighted(patches, 2, to[1], self.resize)
      patches = patches.reshape(self.num_tables, -1, width)
      return jnp.concatenate([table[:, :num_prefix], patches], axis=1)
    rows, columns = grid
    x = self.param("x_embedding", init, (self.num_tables, columns, width // 2))
    y = self.param("y_embedding", init, (self.num_tables, rows, width // 2))
    x = _resized(x, 1, to[1], self.resize)
    y = _resized(y, 1, to[0], self.resize)
    half = (self.num_tables, *to, width // 2)
    x = jnp.broadcast_to(x[:, None], half)
    y = jnp.broadcast_to(y[:, :, None], half)
    table = jnp.concatenate([x, y], axis=-1)
    table = table.reshape(self.num_tables, to[0] * to[1], width)
    if num_prefix:
      shape = (self.num_tables, int(num_prefix), width)
      prefix = self.param("cls_embedding", init, shape)
      table = jnp.concatenate([prefix, table], axis=1)
    return table


class RelativeKeys(nn.Module):
  """A key per head for each 1-D offset p_q - p_k of two tokens.

  Attributes:
    num_heads: Number of heads.
    num_tables: Tables of keys, one for each layer or one for all.
    resize: As in `PositionEmbedding`, along the offsets: the largest offset
      wanted corresponds to the largest one learned.
    stddev: Initial standard deviation of keys.
  """

  num_heads: int
  num_tables: int
  resize: str = "bilinear"
  stddev: float = 0.02

  @nn.compact
  def __call__(
    self, num_tokens: int, width: int, to: int | None = None
  ) -> Float[Array, "tables offsets heads k"]:
    """The keys for `to` tokens, from parameters for `num_tokens`."""
    shape = (self.num_heads, width // self.num_heads)
    keys = self.param(
      "relative_keys",
      nn.initializers.normal(self.stddev),
      (self.num_tables, 2 * num_tokens - 1, *shape),
    )
    num_offsets = 2 * (to or num_tokens) - 1
    return _resized(jnp.asarray(keys), 1, num_offsets, self.resize)


def sincos2d(grid: tuple[int, int], width: int) -> Float[np.ndarray, "n d"]:
  """Sines and cosines of column and row at width / 4 frequencies each.

  As big_vision's `posemb_sincos_2d`; rows of the table in raster order.
  """
  return _sincos2d(grid, np.arange(width // 4) / (width // 4 - 1))


def mae_sincos2d(grid: tuple[int, int], width: int) -> Float[np.ndarray, "n d"]:
  """`sincos2d` at the frequencies of MAE's util/pos_embed.py.

  Its lowest frequency is one step above 1 / 10,000, the lowest of big_vision.
  """
  return _sincos2d(grid, np.arange(width // 4) / (width // 4))


def _sincos2d(
  grid: tuple[int, int], omega: Float[np.ndarray, " f"]
) -> Float[np.ndarray, "n d"]:
  rows, columns = np.mgrid[: grid[0], : grid[1]].reshape(2, -1, 1)
  frequencies = 1.0 / 10_000.0**omega
  x, y = columns * frequencies, rows * frequencies
  table = np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=1)
  return table.astype(np.float32)


def _resized(
  table: Float[Array | np.ndarray, "..."], axis: int, new: int, method: str
) -> Float[Array | np.ndarray, "..."]:
  """The table resized to `new` places along an axis, itself if they match."""
  if table.shape[axis] == new:
    return table
  return _weighted(table, axis, new, method)


def _weighted(
  table: Float[Array | np.ndarray, "..."], axis: int, new: int, method: str
) -> Float[Array | np.ndarray, "..."]:
  """New places along an axis, as weighted sums of the old ones."""
  old = table.shape[axis]
  weights = jnp.asarray(position_resize.matrix(old, new, method), table.dtype)
  result = jnp.tensordot(table, weights, (axis, 1), precision="highest")
  return jnp.moveaxis(result, -1, axis)
