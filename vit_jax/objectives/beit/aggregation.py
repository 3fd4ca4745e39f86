"""BEiT v2's layers that predict tokens from the class token.

Section 2.3 of arXiv 2208.06366; modeling_pretrain.py in microsoft/unilm, beit2.
The class token after the network's last layer and the patches after an earlier
one are encoded by a few layers of their own. As these patches know little about
the image, the class token has to.
"""

import math
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax.models.layers import remat_policies, skipping_groups
from vit_jax.models.layers.encoder_block import EncoderBlock
from vit_jax.models.layers.layer_norm import LayerNorm
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.layers.relative_bias import Places, RelativeBias
from vit_jax.objectives.contract import Params

_ENCODER = "Transformer"
_TABLE = "relative_bias"
# Layers whose biases PyTorch does not start at zero.
_WITH_BIAS = ("out", "Dense_0", "Dense_1")
# Last layers of the residual branches.
_OUTPUTS = ("out", "Dense_1")


class Aggregation(nn.Module):
  """A few layers like those of the network.

  Attributes:
    config: Settings of the layers.
    rates: For each layer, the probability that an example skips a branch.
    groups: For each layer, groups of examples, as for `EncoderBlock`.
    remat: As `config.model.remat`.
  """

  config: LayerConfig
  rates: tuple[float, ...]
  groups: tuple[skipping_groups.Groups | None, ...]
  remat: str = "none"

  @nn.compact
  def __call__(
    self,
    tokens: Float[Array, "b n d"],
    bias: Float[Array, "heads n n"] | None = None,
    read_at: Int[Array, "b k"] | None = None,
    *,
    train: bool = False,
  ) -> Float[Array, "b r d"]:
    """Encodes tokens; the result is not normalised.

    Args:
      tokens: Prefix tokens after the network's last layer, then patches after
        the earlier one.
      bias: Bias of the attention scores.
      read_at: Places of the tokens that are returned; None for all.
      train: True to apply dropout and stochastic depth.
    """
    block = EncoderBlock
    if self.remat != "none":
      block = nn.remat(block, policy=remat_policies.OF_BLOCKS[self.remat])
    layers = list(zip(self.rates, self.groups, strict=True))
    for i, (rate, groups) in enumerate(layers):
      layer = block(self.config, train, groups, name=f"encoderblock_{i}")
      drop_rate = jnp.float32(rate) if train and rate else None
      places = read_at if i == len(layers) - 1 else None
      tokens, _ = layer(tokens, None, None, drop_rate, None, None, bias, places)
    return tokens


def after(
  network: nn.Module, early_layers: int, num_layers: int
) -> Aggregation:
  """Builds layers that follow one of a Vision Transformer.

  Their stochastic depth continues from there as that of the network does.

  Args:
    network: Vision Transformer whose settings they have.
    early_layers: Number of the layer whose patches they receive, from 1.
    num_layers: Number of these layers.
  """
  end = early_layers + num_layers
  rate, kind = network.stochastic_depth_rate, network.stochastic_depth
  depth, size = max(network.depth, end), network.stochastic_depth_group
  rates = skipping_groups.rates(rate, kind, depth)
  groups = skipping_groups.of_layers(rate, kind, depth, size)
  return Aggregation(
    network.layer_config(),
    tuple(rates[early_layers:end]),
    tuple(groups[early_layers:end]),
    network.remat,
  )


def relative_bias(
  network: nn.Module, params: Params, grid: tuple[int, int]
) -> Float[Array, "heads n n"] | None:
  """Computes the bias that the network's layers share; None without one.

  Args:
    network: Vision Transformer.
    params: Its parameters.
    grid: Rows and columns of the patches.
  """
  if network.pos_embedding != "relative_bias":
    return None
  places = Places(grid, grid, network.pos_embedding_resize)
  module = RelativeBias(network.num_heads, places)
  return module.apply({"params": params[_ENCODER][_TABLE]})


def last_norm(
  network: nn.Module, params: Params, tokens: Float[Array, "b k d"]
) -> Float[Array, "b k d"]:
  """Applies the network's last norm to tokens."""
  norm = LayerNorm(network.layer_norm_eps, network.head_dtype)
  return norm.apply({"params": params[_ENCODER]["encoder_norm"]}, tokens)


def started(
  params: Params, rng: Key[Array, ""], early_layers: int
) -> dict[str, Any]:
  """Initialises the layers as the released code does.

  It creates them after the network has been initialised, so that they keep
  PyTorch's own initial values, except that the last matrices of attention and
  MLP are divided by sqrt(2 layer), with layers counted from the network's
  first.
  """
  found = {}
  for i, (name, block) in enumerate(sorted(params.items())):
    divisor = math.sqrt(2 * (early_layers + i + 1))
    found[name] = _started(block, jax.random.fold_in(rng, i), divisor)
  return found


def _started(
  tree: Mapping[str, Any], rng: Key[Array, ""], divisor: float, name: str = ""
) -> dict[str, Any]:
  """Initialises a module and those inside."""
  if "kernel" in tree:
    return _layer(tree, rng, divisor, name)
  return {
    key: _started(value, jax.random.fold_in(rng, i), divisor, key)
    if isinstance(value, Mapping)
    else value
    for i, (key, value) in enumerate(sorted(tree.items()))
  }


def _layer(
  tree: Mapping[str, Array], rng: Key[Array, ""], divisor: float, name: str
) -> dict[str, Array]:
  kernel_rng, bias_rng = jax.random.split(rng)
  shape = tree["kernel"].shape
  # Projections to heads have one axis of inputs, and those from heads two.
  num_inputs = math.prod(shape[:-1]) if name == "out" else shape[0]

  def drawn(rng, shape):
    bound = num_inputs**-0.5
    return jax.random.uniform(rng, shape, minval=-bound, maxval=bound)

  kernel = drawn(kernel_rng, shape)
  found = {"kernel": kernel / divisor if name in _OUTPUTS else kernel}
  if "bias" in tree:
    bias = tree["bias"]
    is_drawn = name in _WITH_BIAS
    found["bias"] = drawn(bias_rng, bias.shape) if is_drawn else bias
  return found
