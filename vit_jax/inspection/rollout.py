"""Attention rollout: which patches the feature of an image is made of.

Abnar and Zuidema, arXiv 2005.00928, as in section D.8 of arXiv 2010.11929: the
maps of a layer are averaged over its heads, half of each token is itself, for
the residual connection, and the layers' matrices are multiplied.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def start(num_tokens: int) -> Float[Array, "n n"]:
  """Before the first layer every token is itself."""
  return jnp.eye(num_tokens)


def through_layer(
  rollout: Float[Array, "n n"], maps: Float[Array | np.ndarray, "heads n n"]
) -> Float[Array, "n n"]:
  """The rollout after one more layer.

  Args:
    rollout: Rows that say what each token is made of before the layer.
    maps: Attention of the layer, in rows that sum to one.

  Returns:
    The same after it; its rows sum to one.
  """
  mixed = jnp.mean(jnp.asarray(maps), axis=0) + jnp.eye(rollout.shape[0])
  return (mixed / jnp.sum(mixed, axis=-1, keepdims=True)) @ rollout
