"""Attention by NVIDIA's cuDNN, whose kernel keeps the scores on the chip."""

import math

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as cudnn
from jaxtyping import Array, Float

from vit_jax.errors import UserError
from vit_jax.models.layers import placement


def attend(
  query: Float[Array, "b n heads k"],
  key: Float[Array, "b n heads k"],
  value: Float[Array, "b n heads k"],
) -> Float[Array, "b n heads k"]:
  """softmax(q k^T / sqrt(k)) v on NVIDIA GPUs, for any number of tokens.

  The backward pass of more than 256 tokens adds up in any order: repeated, it
  differs in the last bits.

  Raises:
    UserError: The kernel does not take heads of this size on this GPU.
  """
  batch_size, length, num_heads, _ = query.shape
  where = placement.of_heads(
    ("batch", None, "heads"), batch_size=batch_size, num_heads=num_heads
  )
  attention = _odd_attention if length % 2 else _even_attention
  try:
    return where.on_each_device(attention)(query, key, value)
  except NotImplementedError as error:
    raise UserError(
      f"The attention of cuDNN cannot be used here: {error} Use"
      " config.model.attention='xla'."
    ) from None


def _even_attention(query, key, value):
  return jax.nn.dot_product_attention(query, key, value, implementation="cudnn")


# jax refuses to differentiate odd numbers of tokens where a bias is added to
# the scores, and takes the empty array that stands for no bias for one. The
# kernels are the same, and so is the backward pass, which checks nothing.
@jax.custom_vjp
def _odd_attention(query, key, value):
  return _even_attention(query, key, value)


def _forward(query, key, value):
  # As jax.nn's, which rounds the second result to the dtype of the first.
  context, log_sums = cudnn.dot_product_attention(
    query, key, value, scale=_scale(query), return_residual=True
  )
  return context, (query, key, value, context, log_sums)


def _backward(saved, gradient):
  query, key, value, context, log_sums = saved
  absent = jnp.zeros(0, query.dtype)
  gradients = cudnn._dot_product_attention_bwd_rule(
    _scale(query),
    0,  # Seed of the dropout.
    0.0,  # Its rate.
    (False, False),  # No bias, and no gradient of one.
    cudnn.MaskType.NO_MASK,
    cudnn.AttentionLayout.BTNH.value,
    None,  # No window.
    None,  # The version of cuDNN, which it does not read.
    False,  # No gradient of `log_sums`.
    (query, key, value, *7 * [absent], log_sums, context),
    gradient,
  )
  return tuple(gradients[:3])


_odd_attention.defvjp(_forward, _backward)


def _scale(query):
  return 1 / math.sqrt(query.shape[-1])
