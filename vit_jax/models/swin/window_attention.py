"""Attention within the windows of a map, which may be shifted.

The windows are a dimension of the batch, and the position biases are gathered
once per layer for all of them. Windows shifted over the border of the image
hold parts of opposite sides, which do not attend to each other.

A TPU's registers are 128 places wide, of which a window of 49 fills a third:
there two windows form one sequence, whose halves do not attend to each other.
The TPU kernel, which writes no scores to memory, processes each window
separately.
"""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from vit_jax.models.layers import (
  placement,
  short_attention_device,
  softmax_attention,
)
from vit_jax.models.layers.tpu_core import LANES
from vit_jax.models.swin import sizes

# Published as a normal distribution truncated at -2 and 2, a hundred deviations
# away.
INIT = nn.initializers.normal(0.02)
_MASKED = -100.0  # Added to scores, as published.
# Added to scores of another window's keys, so that their weights are exactly 0.
_APART = -1e9
# Version 2 multiplies cosines by at most 1 / 0.01, initially by 10.
_LARGEST_SCALE = math.log(1 / 0.01)
_FIRST_SCALE = math.log(10)
_LARGEST_BIAS = 16.0
# Offsets of version 2 range from -8 to 8, in units of log2(8).
_FARTHEST = 8.0
_SHORTEST = 1e-12  # Smallest length by which a vector is divided.


class WindowAttention(nn.Module):
  """Attention from each place to those of its window.

  Attributes:
    num_heads: Number of heads.
    window: Side of the windows, places.
    shift: Places by which the windows are shifted, down and to the right.
    version: As `config.model.version`.
    pretrained_window: Side of the windows that version 2's offsets are relative
      to.
    dtype: Dtype of the products; softmax and position biases are in float32.
    attention: As `config.model.attention`.
    pad_before_shift: As `config.model.pad_before_shift`.
  """

  num_heads: int
  window: int
  shift: int
  version: int
  pretrained_window: int
  dtype: str
  attention: str = "xla"
  pad_before_shift: bool = True

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    _, height, width, channels = x.shape
    window, shift = self.window, self.shift
    # As published, the padding takes part in attention. If added first, it
    # comes before the part shifted over the border, otherwise after it; the
    # mask is that of the padded map in either case.
    filled = ((0, -side % window) for side in (height, width))
    padding = ((0, 0), *filled, (0, 0))
    if self.pad_before_shift:
      x = moved(jnp.pad(x, padding), -shift)
    else:
      x = jnp.pad(moved(x, -shift), padding)
    rows, columns = x.shape[1:3]
    x = partition(x, window)
    # Initialisation may run on any device.
    in_kernel = self.attention == "pallas" and not self.is_initializing()
    together = 1 if in_kernel else _together(x.shape[1], window)
    x = x.reshape(x.shape[0], -1, together * window**2, channels)

    def project(name, kept, has_bias=True):
      dense = nn.Dense(
        channels,
        use_bias=has_bias,
        dtype=self.dtype,
        kernel_init=INIT,
        name=name,
      )
      heads = dense(x).reshape(*x.shape[:-1], self.num_heads, -1)
      # The kernel names the inputs of its own backward pass itself.
      return heads if in_kernel else checkpoint_name(heads, kept)

    query = project("queries", "query")
    key = project("keys", "key", has_bias=self.version == 1)
    value = project("values", "value")
    query, key = self._scaled(query, key)
    bias = self._position_bias()
    mask = window_mask(rows, columns, window, shift, together)
    attend = _in_kernel if in_kernel else _as_products
    context = attend(query, key, value, bias, mask).reshape(x.shape)
    context = checkpoint_name(context, "context")
    x = nn.Dense(channels, dtype=self.dtype, kernel_init=INIT, name="output")(
      context
    )
    x = x.reshape(x.shape[0], -1, window**2, channels)
    x = merge(x, rows, columns, window)
    if self.pad_before_shift:
      return moved(x, shift)[:, :height, :width]
    return moved(x[:, :height, :width], shift)

  def _scaled(self, query, key):
    """Queries and keys whose products are the scores."""
    if self.version == 1:
      scale = 1 / math.sqrt(query.shape[-1])
      return query * jnp.asarray(scale, query.dtype), key
    init = nn.initializers.constant(_FIRST_SCALE)
    scale = self.param("log_scale", init, (self.num_heads,))
    scale = jnp.exp(jnp.minimum(scale, _LARGEST_SCALE)).reshape(1, 1, 1, -1, 1)
    query = _unit(query) * scale
    return query.astype(self.dtype), _unit(key).astype(self.dtype)

  def _position_bias(self):
    """Biases, keys by queries, for each head, [heads, n, n]; float32."""
    places = self.window**2
    if self.version == 1:
      shape = ((2 * self.window - 1) ** 2, self.num_heads)
      table = self.param("positions", INIT, shape)
    else:
      offsets = log_offsets(self.window, self.pretrained_window)
      hidden = nn.Dense(
        sizes.POSITION_WIDTH, kernel_init=INIT, name="position_hidden"
      )(jnp.asarray(offsets))
      table = nn.Dense(
        self.num_heads, use_bias=False, kernel_init=INIT, name="position_bias"
      )(nn.relu(hidden))
      table = _LARGEST_BIAS * nn.sigmoid(table)
    index = offset_index(self.window).T.reshape(-1)
    bias = jnp.take(table, jnp.asarray(index), axis=0)
    return bias.T.reshape(self.num_heads, places, places)


def _as_products(query, key, value, bias, mask):
  together = query.shape[2] // bias.shape[-1]
  bias = jnp.tile(bias[None, None], (1, 1, 1, together, together))
  if mask is not None:
    bias = bias + jnp.asarray(mask)[None, :, None]
  return softmax_attention.attend(query, key, value, bias)


def _in_kernel(query, key, value, bias, mask):
  short_attention_device.check()
  # Imported late, as the kernels' compiler is slow to import.
  from vit_jax.models.layers import short_attention

  *_, length, num_heads, head_size = query.shape
  flat = (
    x.reshape(-1, length, num_heads * head_size) for x in (query, key, value)
  )
  mask = None if mask is None else jnp.asarray(mask)
  return short_attention.attend(
    *flat,
    None,
    num_heads,
    "float32",
    summands=short_attention.Summands(bias, mask),
    scale=1.0,
  )


def partition(
  x: Float[Array, "b h w c"], window: int
) -> Float[Array, "b windows n c"]:
  """Splits a map into windows, row by row, with places in row order."""
  batch, height, width, channels = x.shape
  rows, columns = height // window, width // window
  x = x.reshape(batch, rows, window, columns, window, channels)
  x = x.transpose(0, 1, 3, 2, 4, 5)
  return x.reshape(batch, rows * columns, window * window, channels)


def merge(
  x: Float[Array, "b windows n c"], height: int, width: int, window: int
) -> Float[Array, "b {height} {width} c"]:
  """Joins windows into a map, the inverse of `partition`."""
  batch, _, _, channels = x.shape
  rows, columns = height // window, width // window
  x = x.reshape(batch, rows, columns, window, window, channels)
  return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)


def moved(x: Float[Array, "b h w c"], places: int) -> Float[Array, "b h w c"]:
  """The map, as a torus, shifted down and to the right by `places`.

  `roll` slices and concatenates maps for each axis, each a separate pass on a
  TPU. A sum of maps that are padded on one side and cropped on the other is one
  pass (docs/notes/performance.md).
  """
  if not places:
    return x
  if placement.platform() != "tpu":
    return jnp.roll(x, (places, places), axis=(1, 2))
  _, rows, columns, _ = x.shape
  down, right = places % rows, places % columns
  still, zero = (0, 0, 0), jnp.zeros((), x.dtype)
  parts = [
    jax.lax.pad(x, zero, (still, (y, -y, 0), (z, -z, 0), still))
    for y in (down, down - rows)
    for z in (right, right - columns)
  ]
  return functools.reduce(jnp.add, parts)


def _together(num_windows: int, window: int) -> int:
  """Number of windows that form one sequence."""
  fits = 2 * window**2 <= LANES and num_windows % 2 == 0
  return 2 if fits and placement.platform() == "tpu" else 1


@functools.lru_cache
def window_mask(
  rows: int, columns: int, window: int, shift: int, together: int
) -> Float[np.ndarray, "sequences n n"] | None:
  """Mask added to the scores of sequences of `together` windows.

  Args:
    rows: Rows of the map, including padding.
    columns: Columns of the map, including padding.
    window: Side of the windows, places.
    shift: Places by which the windows are shifted.
    together: Number of windows in a sequence.

  Returns:
    None if all places of a sequence attend to each other.
  """
  places = window**2
  if shift:
    regions = region_mask(rows, columns, window, shift)
  elif together > 1:
    regions = np.zeros((together, places, places), np.float32)
  else:
    return None
  sequences = len(regions) // together
  size = together * places
  mask = np.full((sequences, together, places, together, places), _APART)
  for i in range(together):
    mask[:, i, :, i] = regions[i::together]
  return mask.reshape(sequences, size, size).astype(np.float32)


@functools.lru_cache
def offset_index(window: int) -> Int[np.ndarray, "n n"]:
  """Row of the table for each pair of query and key.

  It is (dy + window - 1) (2 window - 1) + (dx + window - 1) for a query dy
  places below the key and dx places to its right.
  """
  y, x = np.divmod(np.arange(window * window), window)
  rows, columns = (
    place[:, None] - place[None] + window - 1 for place in (y, x)
  )
  return rows * (2 * window - 1) + columns


@functools.lru_cache
def region_mask(
  rows: int, columns: int, window: int, shift: int
) -> Float[np.ndarray, "windows n n"]:
  """-100 for keys from a different part of the image than the query.

  Args:
    rows: Rows of the map, including padding.
    columns: Columns of the map, including padding.
    window: Side of the windows, places.
    shift: Places by which the windows are shifted.
  """
  regions = []
  for side in (rows, columns):
    place = np.arange(side)
    last = (place >= side - window).astype(int) + (place >= side - shift)
    regions.append(last.reshape(side // window, window))
  y, x = regions
  region = 3 * y[:, None, :, None] + x[None, :, None, :]
  region = region.reshape(-1, window * window)
  differs = region[:, :, None] != region[:, None, :]
  return np.where(differs, np.float32(_MASKED), np.float32(0))


@functools.lru_cache
def log_offsets(window: int, pretrained: int) -> Float[np.ndarray, "offsets 2"]:
  """Offsets in rows and columns between two places, on a scale finest at 0.

  Args:
    window: Side of the windows, places.
    pretrained: Side of windows in which the farthest places are 8 apart.
  """
  offset = np.arange(1 - window, window) * (_FARTHEST / max(pretrained - 1, 1))
  offset = np.sign(offset) * np.log2(np.abs(offset) + 1) / math.log2(_FARTHEST)
  y, x = np.meshgrid(offset, offset, indexing="ij")
  return np.stack([y, x], axis=-1).reshape(-1, 2).astype(np.float32)


def _unit(x: Float[Array, "*b heads k"]) -> Float[Array, "*b heads k"]:
  """Vectors of length 1, in float32."""
  x = x.astype(jnp.float32)
  square = jnp.sum(x * x, axis=-1, keepdims=True)
  return x * jax.lax.rsqrt(jnp.maximum(square, _SHORTEST**2))
