"""Attention by NVIDIA's cuDNN, whose kernel keeps the scores on the chip."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.errors import UserError
from vit_jax.models.layers import placement

# jax refuses odd numbers of tokens in a backward pass.
_MULTIPLE = 8


def attend(
  query: Float[Array, "b n heads k"],
  key: Float[Array, "b n heads k"],
  value: Float[Array, "b n heads k"],
) -> Float[Array, "b n heads k"]:
  """softmax(q k^T / sqrt(k)) v on NVIDIA GPUs, for any number of tokens.

  Raises:
    UserError: The kernel does not take heads of this size on this GPU.
  """
  batch_size, _, num_heads, _ = query.shape
  where = placement.of_heads(
    ("batch", None, "heads"), batch_size=batch_size, num_heads=num_heads
  )
  return where.on_each_device(_padded_attention)(query, key, value)


def padding(length: int) -> int:
  """The number of tokens that `attend` adds to so many."""
  return -length % _MULTIPLE


def _padded_attention(query, key, value):
  """Attention with tokens added that none of ours sees.

  The kernel does not write results and gradients of what it was told is
  padding: they may be anything, and are cut off here and, as the gradient of
  padding, in the backward pass.
  """
  batch_size, length, _, _ = query.shape
  added = padding(length)
  attention = functools.partial(
    jax.nn.dot_product_attention, implementation="cudnn"
  )
  if added:
    query, key, value = (
      jnp.pad(x, ((0, 0), (0, added), (0, 0), (0, 0)))
      for x in (query, key, value)
    )
    lengths = jnp.full((batch_size,), length, jnp.int32)
    attention = functools.partial(
      attention, query_seq_lengths=lengths, key_value_seq_lengths=lengths
    )
  try:
    context = attention(query, key, value)
  except NotImplementedError as error:
    raise UserError(
      f"The attention of cuDNN cannot be used here: {error} Use"
      " config.model.attention='xla'."
    ) from None
  return context[:, :length]
