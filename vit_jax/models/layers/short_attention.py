"""Attention of short sequences as one TPU kernel: scores never leave the chip.

An image of 224 px has 197 or 257 tokens: the scores of a head are a matrix
that fits into a core's vector memory whole, so the softmax is the usual one,
row by row, and not the running one of flash attention. Queries, keys and
values come as the projections leave them, (batch, tokens, heads * head size):
a step of the grid takes one image, and the heads are told apart inside.
Nothing is padded or transposed around the call.

The backward pass starts from the queries, keys and values alone: computing
the scores again is cheaper than reading them.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Bool, Float

from vit_jax.models.layers import placement
from vit_jax.models.layers.short_attention_memory import LANES, lanes_per_step


@dataclasses.dataclass(frozen=True)
class _Settings:
  num_heads: int
  softmax_dtype: str
  interpret: bool
  placement: placement.Placement


def attend(
  query: Float[Array, "b n d"],
  key: Float[Array, "b n d"],
  value: Float[Array, "b n d"],
  biases: tuple[Float[Array, " d"], ...] | None,
  num_heads: int,
  softmax_dtype: str,
  interpret: bool = False,
) -> Float[Array, "b n d"]:
  """softmax(q k^T / sqrt(head size)) v for each head.

  Args:
    query, key, value: Arrays of one dtype, with the heads side by side.
    biases: Biases of query, key and value, added inside the kernel, so that its
      backward pass can sum their gradients; None if there are none.
    num_heads: Number of heads.
    softmax_dtype: Dtype of scores and weights; sums are float32.
    interpret: Emulates the kernel where there is no TPU, slowly.

  Returns:
    The heads' results side by side.
  """
  where = placement.of_heads(
    ("batch", None, "heads"), batch_size=len(query), num_heads=num_heads
  )
  settings = _Settings(num_heads, softmax_dtype, interpret, where)
  return _attend(query, key, value, biases, settings)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attend(query, key, value, biases, settings):
  return _forward(query, key, value, biases, settings)[0]


def _forward(query, key, value, biases, settings):
  operands = (query, key, value)
  if biases is not None:
    operands = (
      x + bias.astype(x.dtype)[None, None]
      for x, bias in zip(operands, biases, strict=True)
    )
  # Names for `config.model.remat`: what the backward pass starts from.
  query, key, value = (
    checkpoint_name(x, name)
    for x, name in zip(operands, ("query", "key", "value"), strict=True)
  )
  (context,) = _call(_forward_kernel, (query, key, value), settings)
  return context, (query, key, value, biases)


def _backward(settings, residuals, grad):
  *inputs, biases = residuals
  results = _call(
    _backward_kernel,
    (*inputs, grad),
    settings,
    num_results=3,
    num_sums=0 if biases is None else 3,
  )
  if biases is None:
    return *results, None
  grads, sums = results[:3], results[3:]
  bias_grads = tuple(
    jnp.sum(per_image, (0, 1)).astype(bias.dtype)
    for per_image, bias in zip(sums, biases, strict=True)
  )
  return *grads, bias_grads


_attend.defvjp(_forward, _backward)


def _call(
  kernel: Callable,
  operands: Sequence[Float[Array, "b n d"]],
  settings: _Settings,
  *,
  num_results: int = 1,
  num_sums: int = 0,
) -> Sequence[Array]:
  """Runs `kernel` on each image, each device on what it holds.

  Returns:
    `num_results` arrays like the operands, then `num_sums` of shape (batch, 1,
    width), float32.
  """
  head_size = operands[0].shape[-1] // settings.num_heads
  direction = "backward" if kernel is _backward_kernel else "forward"

  def run(*operands):
    x = operands[0]
    batch, length, width = x.shape
    lanes = lanes_per_step(length, width, head_size, x.dtype.itemsize)
    block = pl.BlockSpec((1, length, lanes), lambda i, j: (i, 0, j))
    row = pl.BlockSpec((1, 1, lanes), lambda i, j: (i, 0, j))
    sums = jax.ShapeDtypeStruct((batch, 1, width), jnp.float32)
    return pl.pallas_call(
      functools.partial(
        kernel,
        head_size=head_size,
        softmax_dtype=settings.softmax_dtype,
      ),
      grid=(batch, width // lanes),
      in_specs=[block] * len(operands),
      out_specs=[block] * num_results + [row] * num_sums,
      out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype)] * num_results
      + [sums] * num_sums,
      compiler_params=pltpu.CompilerParams(
        dimension_semantics=("parallel", "parallel")
      ),
      # By the head size, which the bound of its cycles reads: `vit_jax.aot`.
      name=f"short_attention_{direction}_{head_size}",
      interpret=settings.interpret,
    )(*operands)

  return settings.placement.on_each_device(run)(*operands)


def _windows(
  width: int, head_size: int
) -> Iterator[tuple[Any, list[Bool[Array, "1 lanes"] | None]]]:
  """Lanes that are worked on together, and which of them are which head's.

  Heads that share the 128 lanes of a register are not moved apart: a product
  over 128 lanes costs what one over 64 does, so the others' are zeroed. Heads
  that do not fit into registers evenly are moved.

  Args:
    width: Lanes of all heads.
    head_size: Lanes of a head.

  Yields:
    A slice of lanes, and for each head in it the mask of its lanes, or None if
    it has all.
  """
  size = LANES if LANES % head_size == 0 else head_size
  for start in range(0, width, size):
    lanes = pl.ds(start, min(size, width - start))
    yield lanes, _head_masks(lanes.size, head_size)


def _head_masks(
  size: int, head_size: int
) -> list[Bool[Array, "1 lanes"] | None]:
  if size == head_size:
    return [None]
  lane = jax.lax.broadcasted_iota(jnp.int32, (1, size), 1)
  firsts = range(0, size, head_size)
  return [(lane >= first) & (lane < first + head_size) for first in firsts]


def _only(mask, x):
  return x if mask is None else jnp.where(mask, x, jnp.zeros((), x.dtype))


def _merge(mask, x, others):
  return x if others is None else jnp.where(mask, x, others)


def _product(a, b, a_axis, b_axis):
  """a b, a b^T, a^T b: contracts `a_axis` with `b_axis`, in float32."""
  return jax.lax.dot_general(
    a,
    b,
    (((a_axis,), (b_axis,)), ((), ())),
    preferred_element_type=jnp.float32,
  )


def _scaled(query, head_size):
  return query * jnp.asarray(1 / math.sqrt(head_size), query.dtype)


def _weights(query, key, softmax_dtype):
  """The softmax of the scores, keys by queries, in float32.

  So what is summed over keys is summed over rows of registers, and two of the
  backward pass's three products with scores have them as they are.
  """
  scores = _product(key, query, 1, 1).astype(softmax_dtype)
  weights = jnp.exp(scores - jnp.max(scores, 0, keepdims=True))
  weights = weights.astype(jnp.float32)
  return weights * (1 / jnp.sum(weights, 0, keepdims=True))


# The heads are worked on one after the other and not in a loop, so that the
# compiler may fill the waits of one with the work of the next.


def _forward_kernel(q_ref, k_ref, v_ref, out_ref, *, head_size, softmax_dtype):
  for lanes, masks in _windows(q_ref.shape[-1], head_size):
    query = _scaled(q_ref[0, :, lanes], head_size)
    key, value = k_ref[0, :, lanes], v_ref[0, :, lanes]
    merged = None
    for mask in masks:
      weights = _weights(_only(mask, query), key, softmax_dtype)
      result = _product(weights.astype(value.dtype), value, 0, 0)
      merged = _merge(mask, result, merged)
    out_ref[0, :, lanes] = merged.astype(out_ref.dtype)


def _backward_kernel(
  q_ref,
  k_ref,
  v_ref,
  grad_ref,
  dq_ref,
  dk_ref,
  dv_ref,
  *sum_refs,
  head_size,
  softmax_dtype,
):
  for lanes, masks in _windows(q_ref.shape[-1], head_size):
    query = _scaled(q_ref[0, :, lanes], head_size)
    key, value = k_ref[0, :, lanes], v_ref[0, :, lanes]
    grad = grad_ref[0, :, lanes]
    dtype = query.dtype
    merged = [None] * 3
    for mask in masks:
      weights = _weights(_only(mask, query), key, softmax_dtype)
      d_value = _product(weights.astype(dtype), grad, 1, 0)
      d_weights = _product(value, _only(mask, grad), 1, 1)
      product = weights * d_weights
      mean = jnp.sum(product, 0, keepdims=True)
      d_scores = (product - weights * mean).astype(dtype)
      d_key = _product(d_scores, query, 1, 0)
      d_query = _product(d_scores, key, 0, 0) * (1 / math.sqrt(head_size))
      merged = [
        _merge(mask, x, others)
        for x, others in zip((d_query, d_key, d_value), merged, strict=True)
      ]
    for ref, x in zip((dq_ref, dk_ref, dv_ref), merged, strict=True):
      ref[0, :, lanes] = x.astype(ref.dtype)
    for ref, x in zip(sum_refs, merged, strict=bool(sum_refs)):
      ref[0, :, lanes] = jnp.sum(x, 0, keepdims=True)
