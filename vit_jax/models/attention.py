"""Multi-head attention, with the published names of its parameters."""

import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from vit_jax.errors import UserError
from vit_jax.models.layers import LayerConfig

# A collection of its own: maps are large, so they are sown only where a
# caller makes this collection mutable.
ATTENTION_MAPS = "attention_maps"


class HeadProjection(nn.Module):
  """x W + b with W kept as (width, heads, head size)."""

  num_heads: int
  dtype: str
  use_bias: bool

  @nn.compact
  def __call__(self, x: Float[Array, "b n d"]) -> Float[Array, "b heads n k"]:
    width = x.shape[-1]
    shape = (self.num_heads, width // self.num_heads)
    kernel = self.param("kernel", _flat_xavier, (width, *shape), 1)
    x = jnp.einsum("bnd,dhk->bhnk", x, kernel.astype(self.dtype))
    if self.use_bias:
      bias = self.param("bias", nn.initializers.zeros, shape)
      x = x + bias.astype(self.dtype)[None, :, None]
    return x


class OutputProjection(nn.Module):
  """The heads' results concatenated, times U_msa."""

  dtype: str

  @nn.compact
  def __call__(self, x: Float[Array, "b heads n k"]) -> Float[Array, "b n d"]:
    _, heads, _, head_size = x.shape
    width = heads * head_size
    kernel = self.param("kernel", _flat_xavier, (heads, head_size, width), 2)
    bias = self.param("bias", nn.initializers.zeros, (width,))
    x = jnp.einsum("bhnk,hkd->bnd", x, kernel.astype(self.dtype))
    return x + bias.astype(self.dtype)[None, None]


class MultiHeadAttention(nn.Module):
  """softmax(q k^T / sqrt(head size)) v, over heads. Equations 5 to 8."""

  config: LayerConfig

  @nn.compact
  def __call__(
    self,
    queries: Float[Array, "b q d"],
    tokens: Float[Array, "b n d"],
    relative_keys: Float[Array, "offsets heads k"] | None = None,
  ) -> Float[Array, "b q d"]:
    """Attends from `queries` to `tokens`.

    Args:
      queries: normalised tokens that ask; for self-attention, `tokens`.
      tokens: normalised tokens that keys and values are made of.
      relative_keys: for self-attention, one key for each of the 2 n - 1
        offsets p_q - p_k, from -(n - 1) up.

    Returns:
      The attended values, projected back to the tokens' width.
    """
    config = self.config

    def project(name, x):
      projection = HeadProjection(
        config.num_heads, config.dtype, config.qkv_bias, name=name
      )
      return checkpoint_name(projection(x), name)

    query = project("query", queries)
    key = project("key", tokens)
    value = project("value", tokens)
    # Initialisation may write every collection, and on any device.
    starting = self.is_initializing()
    maps_wanted = self.is_mutable_collection(ATTENTION_MAPS) and not starting
    if config.attention == "cudnn" and not (maps_wanted or starting):
      context = _cudnn_attention(query, key, value)
    else:
      context, maps = _attention(
        query, key, value, relative_keys, config.softmax_dtype
      )
      if maps_wanted:
        self.sow(ATTENTION_MAPS, "attention", maps())
    context = checkpoint_name(context, "context")
    return OutputProjection(config.dtype, name="out")(context)


def _flat_xavier(rng, shape, num_inputs):
  """Xavier-uniform of the matrix that the first `num_inputs` axes multiply."""
  rows = math.prod(shape[:num_inputs])
  flat = (rows, math.prod(shape) // rows)
  return nn.initializers.xavier_uniform()(rng, flat).reshape(shape)


def _attention(
  query: Float[Array, "b heads q k"],
  key: Float[Array, "b heads n k"],
  value: Float[Array, "b heads n k"],
  relative_keys: Float[Array, "offsets heads k"] | None,
  softmax_dtype: str,
) -> tuple[
  Float[Array, "b heads q k"], Callable[[], Float[Array, "b heads q n"]]
]:
  """Attention as matrix products; returns it and a function giving the maps.

  The softmax's division is done on the result, which is smaller than the
  scores: one pass less over the largest array.
  """
  dtype = query.dtype
  query = query * jnp.asarray(1 / math.sqrt(query.shape[-1]), dtype)
  scores = jnp.einsum("bhqk,bhnk->bhqn", query, key)
  if relative_keys is not None:
    scores = scores + _relative_scores(query, relative_keys.astype(dtype))
  scores = scores.astype(softmax_dtype)
  # The result does not depend on the shift, so neither does the gradient.
  shift = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
  weights = jnp.exp(scores - shift)
  total = jnp.sum(weights, axis=-1, keepdims=True, dtype=jnp.float32)
  context = jnp.einsum(
    "bhqn,bhnk->bhqk",
    weights.astype(dtype),
    value,
    preferred_element_type=jnp.float32,
  )
  context = (context / total).astype(dtype)
  return context, lambda: weights.astype(jnp.float32) / total


def _relative_scores(
  query: Float[Array, "b heads n k"],
  relative_keys: Float[Array, "offsets heads k"],
) -> Float[Array, "b heads n n"]:
  """Scores of each query with the keys of its offsets p_q - p_k.

  Row q wants the entries (n - 1) + q - k for k = 0, 1, ...: with the offsets
  reversed, n entries from n - 1 - q on. Padding every row to 2 n entries and
  reading the array as if rows had 2 n - 1 moves row q by q places.
  """
  batch, heads, length, _ = query.shape
  scores = jnp.einsum("bhqk,ohk->bhqo", query, relative_keys[::-1])
  scores = jnp.pad(scores, ((0, 0), (0, 0), (0, 0), (0, 1)))
  flat = scores.reshape(batch, heads, 2 * length * length)
  flat = flat[:, :, length - 1 : length - 1 + length * (2 * length - 1)]
  shifted = flat.reshape(batch, heads, length, 2 * length - 1)
  return shifted[..., :length]


def _cudnn_attention(
  query: Float[Array, "b heads q k"],
  key: Float[Array, "b heads n k"],
  value: Float[Array, "b heads n k"],
) -> Float[Array, "b heads q k"]:
  """NVIDIA's fused kernel, which keeps the scores on the chip."""
  if jax.default_backend() != "gpu" or query.dtype != jnp.bfloat16:
    raise UserError(
      "config.model.attention = 'cudnn' needs an NVIDIA GPU and"
      f" config.model.dtype = 'bfloat16'; here are {jax.default_backend()}"
      f" and {query.dtype}. Use config.model.attention='xla'."
    )
  by_token = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
  context = jax.nn.dot_product_attention(*by_token, implementation="cudnn")
  return jnp.swapaxes(context, 1, 2)
