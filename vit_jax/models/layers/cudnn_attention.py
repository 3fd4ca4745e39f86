"""Attention by NVIDIA's cuDNN, whose kernel keeps the scores on the chip."""

import jax
from jaxtyping import Array, Float

from vit_jax.errors import UserError
from vit_jax.models.layers import placement
from vit_jax.processes import jax_private


def attend(
  query: Float[Array, "b n heads k"],
  key: Float[Array, "b n heads k"],
  value: Float[Array, "b n heads k"],
) -> Float[Array, "b n heads k"]:
  """softmax(q k^T / sqrt(k)) v on NVIDIA GPUs, for any number of tokens.

  The backward pass may sum in any order: repeated on an H100, it was bitwise
  equal with 197 tokens and differed in the last bits with 577.

  Raises:
    UserError: The kernel does not support heads of this size on this GPU.
  """
  batch_size, length, num_heads, _ = query.shape
  where = placement.of(
    ("batch", None, "heads"), batch=batch_size, heads=num_heads
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


# jax has no gradient of its own for odd numbers of tokens.
@jax.custom_vjp
def _odd_attention(query, key, value):
  return _even_attention(query, key, value)


def _forward(query, key, value):
  inputs = query, key, value
  results = jax_private.cudnn_attention(*inputs)
  return results[0], (inputs, results)


def _backward(saved, gradient):
  return jax_private.cudnn_attention_gradients(*saved, gradient)


_odd_attention.defvjp(_forward, _backward)
