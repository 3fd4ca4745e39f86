"""Multi-head attention, with the published names of its parameters."""

import math
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float

from vit_jax.errors import UserError
from vit_jax.models.layers import (
  cudnn_attention,
  placement,
  projecting,
  rope,
  short_attention_device,
  softmax_attention,
  starts,
)
from vit_jax.models.layers.layer_scale import Parameter
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.layers.projecting import (
  HeadProjection,
  OutputProjection,
  Projection,
)

# A separate collection: maps are large, so they are sown only if a caller makes
# this collection mutable.
ATTENTION_MAPS = "attention_maps"
_PROJECTED = ("query", "key", "value")
# Score of masked tokens: its exponential is 0, and sums stay finite.
_MASKED = -1e9


class MultiHeadAttention(nn.Module):
  """softmax(q k^T / sqrt(head size)) v for each head. Equations 5 to 8."""

  config: LayerConfig

  @nn.compact
  def __call__(
    self,
    queries: Float[Array, "b q d"],
    tokens: Float[Array, "b n d"],
    relative_keys: Float[Array, "offsets heads k"] | None = None,
    mask: Bool[Array, "b n"] | Bool[Array, "b q n"] | None = None,
    turns: Float[Array, "2 n k"] | None = None,
    bias: Float[Array, "heads n q"] | None = None,
    scale: Float[Parameter, " d"] | None = None,
  ) -> Float[Array, "b q d"]:
    """Attends from `queries` to `tokens`.

    Args:
      queries: Normalised tokens that queries are computed from; for
        self-attention, `tokens`.
      tokens: Normalised tokens that keys and values are computed from.
      relative_keys: For self-attention, one key for each of the 2 n - 1
        offsets p_q - p_k, from -(n - 1) up.
      mask: True for the tokens to attend to, shared by all queries or separate
        for each; None for all tokens.
      turns: Rotary positions of the tokens, see `rope_table.table`; the queries
        are the first tokens.
      bias: Bias added to the score of each key with each query.
      scale: Factor of each channel of the result; None for 1.

    Returns:
      The attended values, projected back to the width of the tokens.

    Raises:
      UserError: The configured kernel is not available on this device, or does
        not support a mask.
    """
    config = self.config
    # Initialisation may write every collection, and on any device.
    starting = self.is_initializing()
    maps_wanted = self.is_mutable_collection(ATTENTION_MAPS) and not starting
    # A pooling query needs no special kernel, as it has few scores. 'auto' is
    # resolved by runs, which know their devices.
    plain = maps_wanted or starting or queries.shape != tokens.shape
    plain = plain or config.attention == "auto"
    attention = "xla" if plain else config.attention
    if attention == "flash" and placement.platform() == "gpu":
      attention = "cudnn"
    if mask is not None and attention != "xla":
      raise UserError(
        f"config.model.attention = '{config.attention}' does not take the mask"
        " that this model or objective needs; use"
        " config.model.attention='xla'."
      )

    start = starts.of(config.weight_init, config.depth)

    def parameters(name):
      use_bias = config.qkv_bias and (config.key_bias or name != "key")
      module = HeadProjection(
        config.num_heads, config.dtype, use_bias, start.inward, name=name
      )
      return module(tokens.shape[-1])

    inputs = (queries, tokens, tokens)
    projections = tuple(map(parameters, _PROJECTED))
    if attention == "pallas":
      context = _short_attention(inputs, projections, config, turns, bias)
    else:
      made = map(projecting.by_head, inputs, projections)
      query, key, value = map(checkpoint_name, made, _PROJECTED)
      if turns is not None:
        query = rope.rotate(query, turns[:, : query.shape[1]])
        key = rope.rotate(key, turns)
      if attention == "flash":
        context = _flash_attention(query, key, value)
      elif attention == "cudnn":
        context = _cudnn_attention(query, key, value)
      else:
        context, maps = _attention(
          query, key, value, relative_keys, mask, bias, config.softmax_dtype
        )
        if maps_wanted:
          self.sow(ATTENTION_MAPS, "attention", maps())
    context = checkpoint_name(context, "context")
    project = OutputProjection(
      config.num_heads, config.dtype, start.outward, name="out"
    )
    return project(context, scale)


def _attention(
  query: Float[Array, "b q heads k"],
  key: Float[Array, "b n heads k"],
  value: Float[Array, "b n heads k"],
  relative_keys: Float[Array, "offsets heads k"] | None,
  mask: Bool[Array, "b n"] | Bool[Array, "b q n"] | None,
  bias: Float[Array, "heads n q"] | None,
  softmax_dtype: str,
) -> tuple[
  Float[Array, "b q heads k"], Callable[[], Float[Array, "b heads q n"]]
]:
  """Attention as matrix products; also returns a function giving the maps."""
  dtype = query.dtype
  query = query * jnp.asarray(1 / math.sqrt(query.shape[-1]), dtype)
  bias = None if bias is None else bias[None]
  if relative_keys is not None:
    bias = _relative_scores(query, relative_keys.astype(dtype))
  if mask is not None:
    # The layout is [b, heads, n, q], as for the scores.
    allowed = mask[:, None, :, None]
    if mask.ndim == 3:
      allowed = jnp.swapaxes(mask, 1, 2)[:, None]
    shape = (key.shape[0], key.shape[2], key.shape[1], query.shape[1])
    bias = jnp.zeros(shape, dtype) if bias is None else bias
    bias = jnp.where(allowed, bias, jnp.asarray(_MASKED, bias.dtype))
  context = softmax_attention.attend(query, key, value, bias, softmax_dtype)

  def maps():
    weights = jax.nn.softmax(softmax_attention.scores(query, key, bias), axis=2)
    return jnp.swapaxes(weights, 2, 3)

  return context, maps


def _relative_scores(
  query: Float[Array, "b n heads k"],
  relative_keys: Float[Array, "offsets heads k"],
) -> Float[Array, "b heads n q"]:
  """Scores of each query with the keys of its offsets p_q - p_k.

  Row q needs the entries (n - 1) + q - k for k = 0, 1, ...: with the offsets
  reversed, n entries starting at n - 1 - q. Padding every row to 2 n entries
  and reading the array as if rows had 2 n - 1 entries shifts row q by q places.
  """
  batch, length, heads, _ = query.shape
  scores = jnp.einsum("bqhk,ohk->bhqo", query, relative_keys[::-1])
  scores = jnp.pad(scores, ((0, 0), (0, 0), (0, 0), (0, 1)))
  flat = scores.reshape(batch, heads, 2 * length * length)
  flat = flat[:, :, length - 1 : length - 1 + length * (2 * length - 1)]
  shifted = flat.reshape(batch, heads, length, 2 * length - 1)
  return jnp.swapaxes(shifted[..., :length], 2, 3)


def _short_attention(
  inputs: Sequence[Float[Array, "b n d"]],
  projections: Sequence[Projection],
  config: LayerConfig,
  turns: Float[Array, "2 n k"] | None,
  bias: Float[Array, "heads n n"] | None,
) -> Float[Array, "b n d"]:
  """Our TPU kernel, which keeps the scores of short inputs on the chip."""
  short_attention_device.check()
  # Imported late, as the kernels' compiler is slow to import.
  from vit_jax.models.layers import short_attention

  flat = projecting.flat
  if placement.kernels_split_by_heads(config.num_heads):
    flat = projecting.flat_scattered
  query, key, value = (
    x @ flat(projection.kernel)
    for x, projection in zip(inputs, projections, strict=True)
  )
  # The kernel adds either all three biases or none.
  biases = projecting.flat_biases(projections)
  if turns is not None:
    if biases is not None:
      query, key, value = (
        x + of_all.astype(x.dtype)[None, None]
        for x, of_all in zip((query, key, value), biases, strict=True)
      )
      biases = None
    query = rope.rotate_side_by_side(query, turns)
    key = rope.rotate_side_by_side(key, turns)
  return short_attention.attend(
    query,
    key,
    value,
    biases,
    config.num_heads,
    config.softmax_dtype,
    summands=None if bias is None else short_attention.Summands(bias),
  )


def _flash_attention(
  query: Float[Array, "b q heads k"],
  key: Float[Array, "b n heads k"],
  value: Float[Array, "b n heads k"],
) -> Float[Array, "b q heads k"]:
  """The TPU kernel that computes and uses the scores block by block."""
  if placement.platform() != "tpu":
    raise UserError(
      "config.model.attention = 'flash' needs a TPU or an NVIDIA GPU; here is"
      f" a {placement.platform()}. Use config.model.attention='xla'."
    )
  # Imported late, as the kernels' compiler is slow to import.
  from vit_jax.models.layers import flash_attention

  by_head = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
  return jnp.swapaxes(flash_attention.attend(*by_head), 1, 2)


def _cudnn_attention(
  query: Float[Array, "b q heads k"],
  key: Float[Array, "b n heads k"],
  value: Float[Array, "b n heads k"],
) -> Float[Array, "b q heads k"]:
  """NVIDIA's fused kernel, which keeps the scores on the chip."""
  if placement.platform() != "gpu" or query.dtype != jnp.bfloat16:
    raise UserError(
      "config.model.attention = 'cudnn' needs an NVIDIA GPU and"
      f" config.model.dtype = 'bfloat16'; here are {placement.platform()}"
      f" and {query.dtype}. Use config.model.attention='xla'."
    )
  return cudnn_attention.attend(query, key, value)
