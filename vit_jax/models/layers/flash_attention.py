"""Attention for long inputs: scores are computed and used block by block.

It uses the kernel that comes with jax on TPUs, and cuDNN's on NVIDIA GPUs.
"""

import functools
import math

import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu import flash_attention
from jaxtyping import Array, Float

from vit_jax.models.layers import placement

# Tokens processed at a time; multiples of the 128 lanes of a register. Larger
# blocks would repeat less of the work, but do not fit.
BLOCK_SIZES = (512, 384, 256)


def attend(
  query: Float[Array, "b heads n k"],
  key: Float[Array, "b heads n k"],
  value: Float[Array, "b heads n k"],
) -> Float[Array, "b heads n k"]:
  """softmax(q k^T / sqrt(k)) v on TPUs, for any number of tokens."""
  batch_size, num_heads, length, _ = query.shape
  where = placement.of(("batch", "heads"), batch=batch_size, heads=num_heads)
  attend_padded = functools.partial(_padded_attention, length=length)
  return where.on_each_device(attend_padded)(query, key, value)


def block_size(length: int) -> int:
  """The block size that pads `length` least; the largest in case of ties."""
  return min(BLOCK_SIZES, key=lambda size: -length % size)


def _padded_attention(query, key, value, *, length):
  """Pads to the whole blocks that the kernel needs; no token sees padding."""
  batch, _, _, head_size = query.shape
  block = block_size(length)
  padding = -length % block
  query, key, value = (
    jnp.pad(x, ((0, 0), (0, 0), (0, padding), (0, 0)))
    for x in (query, key, value)
  )
  # Tokens attend only to those of the same segment.
  kind = (jnp.arange(length + padding) >= length).astype(jnp.int32)
  kinds = jnp.broadcast_to(kind[None], (batch, length + padding))
  context = flash_attention.flash_attention(
    query,
    key,
    value,
    segment_ids=flash_attention.SegmentIds(kinds, kinds),
    sm_scale=1 / math.sqrt(head_size),
    block_sizes=_blocks(block),
  )
  return context[:, :, :length]


def _blocks(block: int) -> flash_attention.BlockSizes:
  return flash_attention.BlockSizes(
    block_q=block,
    block_k_major=block,
    block_k=block,
    block_b=1,
    block_q_major_dkv=block,
    block_k_major_dkv=block,
    block_k_dkv=block,
    block_q_dkv=block,
    block_k_major_dq=block,
    block_k_dq=block,
    block_q_dq=block,
  )
