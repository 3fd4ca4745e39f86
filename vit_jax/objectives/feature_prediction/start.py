"""Initialisation of the released code where it differs from the ViT's."""

import math

import flax.linen as nn
import jax
from jaxtyping import Array, Float, Key

from vit_jax import registry, trees
from vit_jax.config import schema
from vit_jax.objectives import contract

_STDDEV = 0.02


def started(
  params: contract.Params, rng: Key[Array, ""], model: schema.Model
) -> contract.Params:
  """Initialises parameters as in EVA-02's pre-training.

  Matrices of the blocks are Xavier-normal. In networks with a norm in their
  MLPs (`model.mlp_norm`), the larger ones, each is drawn separately, and those
  of values, attention outputs and MLPs are scaled by sqrt(log(2 depth)). In the
  others, queries, keys and values form one matrix, and so do the two layers
  before SwiGLU's product. Patches are embedded by a Xavier-uniform matrix. The
  class token and the positions are normal, truncated at their standard
  deviation of 0.02.

  Args:
    params: Parameters of the network.
    rng: Key.
    model: Section `model`.
  """
  deviations = _deviations(model)
  rngs = dict(
    zip(
      (path for path, _ in trees.named_leaves(params)),
      jax.random.split(rng, len(jax.tree.leaves(params))),
      strict=True,
    )
  )

  def start(path, leaf):
    *_, parent, name = ["", *path.split("/")]
    if "encoderblock" in path and name == "kernel":
      return deviations[parent] * jax.random.normal(rngs[path], leaf.shape)
    if path == "embedding/kernel":
      flat = (math.prod(leaf.shape[:-1]), leaf.shape[-1])
      kernel = nn.initializers.xavier_uniform()(rngs[path], flat)
      return kernel.reshape(leaf.shape)
    if path == "cls" or name == "pos_embedding":
      return _token(rngs[path], leaf.shape)
    return leaf

  return trees.map_named(start, params)


def mask_token(rng: Key[Array, ""], width: int) -> Float[Array, "1 1 d"]:
  """Draws the initial mask token."""
  return _token(rng, (1, 1, width))


def _token(rng, shape):
  """Draws from a normal distribution truncated at its standard deviation."""
  return _STDDEV * jax.random.truncated_normal(rng, -1, 1, shape)


def _deviations(model: schema.Model) -> dict[str, float]:
  """Returns the standard deviation of each layer's matrix in a block."""
  size = registry.FAMILIES.get(model.name).size(model)
  width, hidden = size.width, size.mlp_dim
  joins = not model.mlp_norm
  of_attention = 3 * width if joins else width
  of_mlp = 2 * hidden if joins and model.mlp == "swiglu" else hidden
  fans = {
    "query": (width, of_attention),
    "key": (width, of_attention),
    "value": (width, of_attention),
    "out": (width, width),
    "gate": (width, of_mlp),
    "Dense_0": (width, of_mlp),
    "Dense_1": (hidden, width),
  }
  scale = math.sqrt(math.log(2 * size.depth)) if model.mlp_norm else 1.0
  return {
    layer: math.sqrt(2 / sum(ends))
    * (1.0 if layer in ("query", "key") else scale)
    for layer, ends in fans.items()
  }
