"""Initialisation of the released code where it differs from the ViT's."""

import math

import flax.linen as nn
import jax
from jaxtyping import Array, Key

from vit_jax.objectives import contract


def started(
  params: contract.Params, rng: Key[Array, ""] | None = None
) -> contract.Params:
  """Initialises parameters that differ from the ViT's in the released code.

  Queries, keys and values are one matrix there, whose Xavier bound is smaller.
  With `rng`, patches are embedded by a Xavier-uniform matrix and the class
  token is drawn from N(0, 0.02^2).
  """

  def start(path, leaf):
    names = [part.key for part in path]
    if names[-1] == "kernel" and names[-2] in ("query", "key", "value"):
      # sqrt(6 / (d + 3 d)) instead of sqrt(6 / (d + d)).
      return leaf / math.sqrt(2)
    return leaf

  params = jax.tree_util.tree_map_with_path(start, params)
  if rng is None:
    return params
  embedding, cls = params["embedding"], params.get("cls")
  kernel_rng, cls_rng = jax.random.split(rng)
  kernel = embedding["kernel"]
  flat = (math.prod(kernel.shape[:-1]), kernel.shape[-1])
  kernel = nn.initializers.xavier_uniform()(kernel_rng, flat).reshape(
    kernel.shape
  )
  params = {**params, "embedding": {**embedding, "kernel": kernel}}
  if cls is not None:
    params["cls"] = 0.02 * jax.random.normal(cls_rng, cls.shape)
  return params
