"""A straightforward Swin Transformer of Flax's own layers.

A baseline and an oracle, as `PlainViT` is: windows are cut by reshape and
transpose, shifted by `roll`, and attend by a softmax of masked scores. Its
parameters are those of `Swin`.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_INIT = nn.initializers.normal(0.02)


class PlainSwin(nn.Module):
  """Normalised float images to logits; attributes as `Swin`'s.

  Maps must divide into windows.

  Attributes:
    softmax_dtype: Dtype of the scores once the biases are added.
  """

  depths: tuple[int, ...]
  num_heads: tuple[int, ...]
  width: int
  patch_size: int
  window_size: int
  num_classes: int
  dtype: str = "float32"
  softmax_dtype: str = "float32"

  @nn.compact
  def __call__(
    self, images: Float[Array, "b h w c"], *, train: bool = False
  ) -> Float[Array, "b classes"]:
    del train
    x = PlainPatches(
      self.width, self.patch_size, 1e-5, self.dtype, name="stem"
    )(images)
    for i, (depth, heads) in enumerate(
      zip(self.depths, self.num_heads, strict=True)
    ):
      is_last = i + 1 == len(self.depths)
      x = PlainStage(
        depth,
        heads,
        self.window_size,
        is_last,
        self.dtype,
        self.softmax_dtype,
        name=f"stage{i + 1}",
      )(x)
    x = nn.LayerNorm(1e-5, dtype=self.dtype, name="norm")(x).mean(axis=(1, 2))
    zeros = nn.initializers.zeros
    head = nn.Dense(
      self.num_classes, dtype=self.dtype, kernel_init=zeros, name="head"
    )
    return head(x).astype(jnp.float32)


class PlainPatches(nn.Module):
  """Patches of the image as channels, normalised."""

  width: int
  patch_size: int
  epsilon: float
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    patches = (self.patch_size,) * 2
    x = nn.Conv(
      self.width,
      patches,
      strides=patches,
      padding="VALID",
      dtype=self.dtype,
      kernel_init=_INIT,
      name="conv",
    )(x)
    return nn.LayerNorm(self.epsilon, dtype=self.dtype, name="norm")(x)


class PlainStage(nn.Module):
  depth: int
  num_heads: int
  window: int
  is_last: bool
  dtype: str
  softmax_dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    window = min(self.window, x.shape[1])
    shift = self.window // 2 if window < x.shape[1] else 0
    for i in range(self.depth):
      x = PlainBlock(
        self.num_heads,
        window,
        shift if i % 2 else 0,
        self.dtype,
        self.softmax_dtype,
        name=f"block{i + 1:02d}",
      )(x)
    return x if self.is_last else PlainMerging(self.dtype, name="merge")(x)


class PlainMerging(nn.Module):
  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    width = 2 * x.shape[-1]
    corners = [x[:, i::2, j::2] for j in range(2) for i in range(2)]
    x = jnp.concatenate(corners, axis=-1)
    x = nn.LayerNorm(1e-5, dtype=self.dtype, name="norm")(x)
    return nn.Dense(
      width,
      use_bias=False,
      dtype=self.dtype,
      kernel_init=_INIT,
      name="reduction",
    )(x)


class PlainBlock(nn.Module):
  num_heads: int
  window: int
  shift: int
  dtype: str
  softmax_dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    _, rows, columns, width = x.shape
    shift = (self.shift,) * 2
    y = nn.LayerNorm(1e-5, dtype=self.dtype, name="attention_norm")(x)
    y = jnp.roll(y, [-places for places in shift], axis=(1, 2))
    y = PlainAttention(
      self.num_heads,
      self.window,
      _mask(rows, columns, self.window, self.shift) if self.shift else None,
      self.dtype,
      self.softmax_dtype,
      name="attention",
    )(_windows(y, self.window))
    y = _unwindowed(y, rows, columns, self.window)
    x = x + jnp.roll(y, shift, axis=(1, 2))
    y = nn.LayerNorm(1e-5, dtype=self.dtype, name="mlp_norm")(x)
    dense = dict(dtype=self.dtype, kernel_init=_INIT)
    y = nn.gelu(nn.Dense(4 * width, name="expand", **dense)(y), False)
    return x + nn.Dense(width, name="project", **dense)(y)


class PlainAttention(nn.Module):
  """Attention within windows, (batch and windows, places, channels).

  Attributes:
    mask: What is added to the scores of each window of an image; None: zero.
  """

  num_heads: int
  window: int
  mask: np.ndarray | None
  dtype: str
  softmax_dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b n c"]) -> Float[Array, "b n c"]:
    batch, places, width = x.shape
    dense = dict(dtype=self.dtype, kernel_init=_INIT)
    query, key, value = (
      nn.Dense(width, name=name, **dense)(x).reshape(
        batch, places, self.num_heads, -1
      )
      for name in ("queries", "keys", "values")
    )
    query = query / np.sqrt(query.shape[-1]).astype(query.dtype)
    scores = jnp.einsum("bqhk,bnhk->bhqn", query, key)
    scores = scores.astype(self.softmax_dtype) + self._bias()
    if self.mask is not None:
      windows = len(self.mask)
      mask = jnp.asarray(self.mask, scores.dtype)[None, :, None]
      scores = scores.reshape(-1, windows, *scores.shape[1:]) + mask
      scores = scores.reshape(batch, *scores.shape[2:])
    weights = jax.nn.softmax(scores, axis=-1).astype(self.dtype)
    x = jnp.einsum("bhqn,bnhk->bqhk", weights, value)
    x = x.reshape(batch, places, width)
    return nn.Dense(width, name="output", **dense)(x)

  def _bias(self):
    side = 2 * self.window - 1
    table = self.param("positions", _INIT, (side**2, self.num_heads))
    place = np.stack(np.divmod(np.arange(self.window**2), self.window))
    dy, dx = place[:, :, None] - place[:, None, :] + self.window - 1
    bias = table[side * dy + dx].transpose(2, 0, 1)
    return bias.astype(self.softmax_dtype)


def _windows(x, window):
  batch, rows, columns, width = x.shape
  x = x.reshape(batch, rows // window, window, columns // window, window, width)
  return x.transpose(0, 1, 3, 2, 4, 5).reshape(-1, window**2, width)


def _unwindowed(x, rows, columns, window):
  width = x.shape[-1]
  x = x.reshape(-1, rows // window, columns // window, window, window, width)
  return x.transpose(0, 1, 3, 2, 4, 5).reshape(-1, rows, columns, width)


def _mask(rows, columns, window, shift):
  """-100 for places that were not neighbours before the map was rolled."""
  region = np.zeros((1, rows, columns, 1))
  edges = (slice(-window), slice(-window, -shift), slice(-shift, None))
  for i, part in enumerate(edges):
    for j, other in enumerate(edges):
      region[:, part, other] = 3 * i + j
  region = _windows(region, window)[..., 0]
  return np.where(region[:, :, None] != region[:, None, :], -100.0, 0.0)
