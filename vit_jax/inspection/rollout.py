"""Attention rollout: the patches that contribute to an image's feature.

Abnar and Zuidema, arXiv 2005.00928, as in section D.8 of arXiv 2010.11929: the
maps of a layer are averaged over its heads, each token keeps half of itself
(the residual connection), and the layers' matrices are multiplied.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def start(num_tokens: int) -> Float[Array, "n n"]:
  """Returns the identity: before the first layer every token is itself."""
  return jnp.eye(num_tokens)


def through_layer(
  rollout: Float[Array, "n n"], maps: Float[Array | np.ndarray, "heads n n"]
) -> Float[Array, "n n"]:
  """Returns the rollout after one more layer.

  Args:
    rollout: Rows with the composition of each token before the layer.
    maps: Attention of the layer, in rows that sum to one.

  Returns:
    The composition after the layer; rows sum to one.
  """
  mixed = jnp.mean(jnp.asarray(maps), axis=0) + jnp.eye(rollout.shape[0])
  return (mixed / jnp.sum(mixed, axis=-1, keepdims=True)) @ rollout
