"""What XLA for TPUs makes of attention by plain products."""

import math

import jax
import jax.numpy as jnp
import pytest

from tests.aot import chip
from vit_jax.aot import hlo_text
from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.mlp import LayerConfig

BATCH, TOKENS, HEADS, WIDTH = 16, 197, 6, 384
# Instructions that name a result of another one.
SAME_ARRAY = {"bitcast", "get-tuple-element", "parameter", "tuple"}


def compiled(softmax_dtype: str) -> str:
  """Forward and backward pass of an attention layer."""
  attention = MultiHeadAttention(
    LayerConfig(HEADS, WIDTH, dtype="bfloat16", softmax_dtype=softmax_dtype)
  )
  tokens = jnp.zeros((BATCH, TOKENS, WIDTH), jnp.bfloat16)
  params = jax.eval_shape(attention.init, jax.random.key(0), tokens, tokens)

  return chip.compiled(
    lambda params, tokens: attention.apply(params, tokens, tokens),
    params,
    tokens,
  )


@pytest.mark.parametrize("softmax_dtype", ["float32", "bfloat16"])
def test_softmax_is_part_of_the_products(libtpu, softmax_dtype):
  module = hlo_text.parse(compiled(softmax_dtype))
  size = BATCH * HEADS * TOKENS**2
  steps = {step.name: step for step in module[module.entry]}
  written, num_reads = [], 0
  for step in steps.values():
    if step.opcode in SAME_ARRAY:
      continue
    written += [x.dtype for x in step.shapes if math.prod(x.dims) == size]
    read = (steps[name].shapes for name in step.operands if name in steps)
    num_reads += sum(math.prod(shapes[0].dims) == size for shapes in read)
  # The exponentials, and the gradient of the scores; never in float32.
  assert written == ["bf16", "bf16"]
  # The exponentials by the product with the values and by the gradients of
  # values and scores; that of the scores by those of queries and keys.
  assert num_reads == 5
