"""Attention of short sequences as one TPU kernel: scores never leave the chip.

An image of 224 px has 197 or 257 tokens: the scores of a head are a matrix that
fits into a core's vector memory, so the softmax is the usual one, row by row,
and not the running one of flash attention. Queries, keys and values keep the
shape of the projections, (batch, tokens, heads * head size): a step of the grid
processes one image or several short sequences, and separates the heads itself.
Nothing is padded or transposed around the call.

The backward pass starts from the queries, keys and values only: recomputing the
scores is cheaper than reading them.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float

from vit_jax.models.layers import placement
from vit_jax.models.layers.short_attention_memory import (
  lanes_per_step,
  sequences_per_step,
)
from vit_jax.models.layers.tpu_core import LANES


class Summands(NamedTuple):
  """Arrays added to the scores, keys by queries, in float32.

  Attributes:
    bias: Bias shared by all sequences; it has a gradient.
    mask: Mask for each of the consecutive sequences that form an image, shared
      by all heads; None for no mask. It has no gradient.
  """

  bias: Float[Array, "heads n n"]
  mask: Float[Array, "sequences n n"] | None = None


@dataclasses.dataclass(frozen=True)
class _Settings:
  num_heads: int
  scale: float
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
  summands: Summands | None = None,
  scale: float | None = None,
) -> Float[Array, "b n d"]:
  """softmax(scale q k^T + summands) v for each head.

  Args:
    query, key, value: Arrays of one dtype, with the heads side by side.
    biases: Biases of query, key and value, added inside the kernel, so that its
      backward pass can sum their gradients; None for no biases.
    num_heads: Number of heads.
    softmax_dtype: Dtype of scores and weights; sums are float32.
    interpret: Emulates the kernel where there is no TPU, slowly.
    summands: Arrays added to the scores.
    scale: Factor on the scores; None for 1 / sqrt(head size).

  Returns:
    The results of the heads, side by side.
  """
  masked = summands is not None and summands.mask is not None
  # Devices hold whole images, so their first sequence has the first mask.
  images = len(query) // (len(summands.mask) if masked else 1)
  where = placement.of(("batch", None, "heads"), batch=images, heads=num_heads)
  if scale is None:
    scale = 1 / math.sqrt(query.shape[-1] // num_heads)
  settings = _Settings(num_heads, scale, softmax_dtype, interpret, where)
  return _attend(query, key, value, biases, summands, settings)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attend(query, key, value, biases, summands, settings):
  return _forward(query, key, value, biases, summands, settings)[0]


def _forward(query, key, value, biases, summands, settings):
  operands = (query, key, value)
  if biases is not None:
    operands = (
      x + bias.astype(x.dtype)[None, None]
      for x, bias in zip(operands, biases, strict=True)
    )
  # Names for `config.model.remat` of the arrays that the backward pass needs.
  query, key, value = (
    checkpoint_name(x, name)
    for x, name in zip(operands, ("query", "key", "value"), strict=True)
  )
  inputs = (query, key, value)
  results = _call(_forward_kernel, inputs, summands, settings, num_results=1)
  return results.arrays[0], (*inputs, biases, summands)


def _backward(settings, residuals, grad):
  *inputs, biases, summands = residuals
  results = _call(
    _backward_kernel,
    (*inputs, grad),
    summands,
    settings,
    num_results=3,
    num_sums=0 if biases is None else 3,
    bias_summed=summands is not None,
  )
  bias_grads = biases and tuple(
    jnp.sum(per_sequence, (0, 1)).astype(bias.dtype)
    for per_sequence, bias in zip(results.sums, biases, strict=True)
  )
  summand_grads = summands
  if summands is not None:
    mask = summands.mask
    summand_grads = Summands(
      results.bias.astype(summands.bias.dtype),
      None if mask is None else jnp.zeros_like(mask),
    )
  return *results.arrays, bias_grads, summand_grads


_attend.defvjp(_forward, _backward)


class _Results(NamedTuple):
  """Results of a kernel, or a value or reference for each of them.

  Attributes:
    arrays: Arrays shaped like the operands.
    sums: Their sums over each sequence, (batch, 1, width), float32.
    bias: Sum of the scores' gradients, (heads, n, n), float32; None without
      bias.
  """

  arrays: list
  sums: list
  bias: Any


def _call(
  kernel: Callable,
  operands: tuple[Float[Array, "b n d"], ...],
  summands: Summands | None,
  settings: _Settings,
  *,
  num_results: int,
  num_sums: int = 0,
  bias_summed: bool = False,
) -> _Results:
  """Runs `kernel` on each sequence; each device processes those it holds."""
  head_size = operands[0].shape[-1] // settings.num_heads
  direction = "backward" if kernel is _backward_kernel else "forward"
  spec = settings.placement.spec or PartitionSpec(None, None, None)
  batch_axes, _, head_axes = spec

  def run(operands, summands):
    x = operands[0]
    batch, length, width = x.shape
    masks = None if summands is None else summands.mask
    group = sequences_per_step(length, batch if masks is None else len(masks))
    lanes = lanes_per_step(
      length, width, head_size, x.dtype.itemsize, summands is not None
    )
    # Lanes are outermost, so the sum of the scores' gradients stays in memory
    # as long as the heads are the same.
    block = pl.BlockSpec((group, length, lanes), lambda j, i: (i, 0, j))
    row = pl.BlockSpec((group, 1, lanes), lambda j, i: (i, 0, j))
    pair = (lanes // head_size, length, length)
    bias = pl.BlockSpec(pair, lambda j, i: (j, 0, 0))
    added = None
    if summands is not None:
      steps = 1 if masks is None else len(masks) // group
      mask = pl.BlockSpec(
        (group, length, length), lambda j, i: (jax.lax.rem(i, steps), 0, 0)
      )
      added = Summands(bias, None if masks is None else mask)
    sums = jax.ShapeDtypeStruct((batch, 1, width), jnp.float32)
    results = pl.pallas_call(
      functools.partial(
        kernel,
        head_size=head_size,
        scale=settings.scale,
        softmax_dtype=settings.softmax_dtype,
      ),
      grid=(width // lanes, batch // group),
      in_specs=((block,) * len(operands), added),
      out_specs=_Results(
        [block] * num_results, [row] * num_sums, bias if bias_summed else None
      ),
      out_shape=_Results(
        [jax.ShapeDtypeStruct(x.shape, x.dtype)] * num_results,
        [sums] * num_sums,
        jax.ShapeDtypeStruct(summands.bias.shape, jnp.float32)
        if bias_summed
        else None,
      ),
      compiler_params=pltpu.CompilerParams(
        dimension_semantics=(
          "parallel",
          "arbitrary" if bias_summed else "parallel",
        )
      ),
      # The name has the head size, which the bound on its cycles in
      # `vit_jax.aot` reads.
      name=f"short_attention_{direction}_{head_size}",
      interpret=settings.interpret,
    )(operands, summands)
    if bias_summed and batch_axes is not None:
      results = results._replace(bias=jax.lax.psum(results.bias, batch_axes))
    return results

  of_heads = PartitionSpec(head_axes)
  return settings.placement.on_each_device(
    run,
    in_specs=(spec, summands and Summands(of_heads, PartitionSpec())),
    out_specs=_Results(spec, spec, of_heads),
  )(operands, summands)


def _work(shape: tuple[int, ...], head_size: int) -> Iterator:
  """Pairs each sequence of a step with each of the lanes of `_windows`."""
  return itertools.product(range(shape[0]), _windows(shape[-1], head_size))


def _windows(
  width: int, head_size: int
) -> Iterator[tuple[Any, list[Bool[Array, "1 lanes"] | None]]]:
  """Groups of lanes that are processed together, with the lanes of each head.

  Heads that share the 128 lanes of a register are not separated: a product over
  128 lanes costs the same as one over 64, so the other heads' lanes are zeroed.
  Heads that do not fit into registers evenly are moved.

  Args:
    width: Lanes of all heads.
    head_size: Lanes of a head.

  Yields:
    A slice of lanes, and for each head in it the mask of its lanes, or None if
    it has all of them.
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


def _scaled(query, scale):
  return query * jnp.asarray(scale, query.dtype)


def _weights(query, key, summands, softmax_dtype):
  """The softmax of the scores, keys by queries, in float32.

  With this layout, sums over keys are sums over rows of registers, and two of
  the backward pass's three products with scores use them untransposed.
  """
  scores = _product(key, query, 1, 1).astype(softmax_dtype)
  for summand in summands:
    scores = scores + summand.astype(softmax_dtype)
  weights = jnp.exp(scores - jnp.max(scores, 0, keepdims=True))
  weights = weights.astype(jnp.float32)
  return weights * (1 / jnp.sum(weights, 0, keepdims=True))


def _summands_of(
  refs: Summands | None, sequence: int, head: int
) -> list[Array]:
  """The arrays added to the scores of one head of one sequence."""
  if refs is None:
    return []
  found = [refs.bias[head]]
  return found if refs.mask is None else [*found, refs.mask[sequence]]


# The loop over heads is unrolled, so that the compiler can overlap the waits of
# one head with the work of the next.


def _forward_kernel(
  operand_refs,
  summand_refs,
  out_refs,
  sum_refs,
  bias_ref,
  *,
  head_size,
  scale,
  softmax_dtype,
):
  del sum_refs, bias_ref  # Used for gradients only.
  q_ref, k_ref, v_ref = operand_refs
  (out_ref,) = out_refs
  for i, (lanes, masks) in _work(q_ref.shape, head_size):
    query = _scaled(q_ref[i, :, lanes], scale)
    key, value = k_ref[i, :, lanes], v_ref[i, :, lanes]
    merged = None
    for head, mask in enumerate(masks, lanes.start // head_size):
      summands = _summands_of(summand_refs, i, head)
      weights = _weights(_only(mask, query), key, summands, softmax_dtype)
      result = _product(weights.astype(value.dtype), value, 0, 0)
      merged = _merge(mask, result, merged)
    out_ref[i, :, lanes] = merged.astype(out_ref.dtype)


def _backward_kernel(
  operand_refs,
  summand_refs,
  out_refs,
  sum_refs,
  bias_ref,
  *,
  head_size,
  scale,
  softmax_dtype,
):
  q_ref, k_ref, v_ref, grad_ref = operand_refs
  if bias_ref is not None:

    @pl.when(pl.program_id(1) == 0)
    def start():
      bias_ref[...] = jnp.zeros(bias_ref.shape, bias_ref.dtype)

  for i, (lanes, masks) in _work(q_ref.shape, head_size):
    query = _scaled(q_ref[i, :, lanes], scale)
    key, value = k_ref[i, :, lanes], v_ref[i, :, lanes]
    grad = grad_ref[i, :, lanes]
    dtype = query.dtype
    merged = [None] * 3
    for head, mask in enumerate(masks, lanes.start // head_size):
      summands = _summands_of(summand_refs, i, head)
      weights = _weights(_only(mask, query), key, summands, softmax_dtype)
      d_value = _product(weights.astype(dtype), grad, 1, 0)
      d_weights = _product(value, _only(mask, grad), 1, 1)
      product = weights * d_weights
      mean = jnp.sum(product, 0, keepdims=True)
      d_scores = product - weights * mean
      if bias_ref is not None:
        bias_ref[head] += d_scores
      d_scores = d_scores.astype(dtype)
      d_key = _product(d_scores, query, 1, 0)
      d_query = _product(d_scores, key, 0, 0) * scale
      merged = [
        _merge(mask, x, others)
        for x, others in zip((d_query, d_key, d_value), merged, strict=True)
      ]
    for ref, x in zip(out_refs, merged, strict=True):
      ref[i, :, lanes] = x.astype(ref.dtype)
    for ref, x in zip(sum_refs, merged, strict=bool(sum_refs)):
      ref[i, :, lanes] = jnp.sum(x, 0, keepdims=True)
