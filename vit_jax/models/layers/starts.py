"""Starting values of a Vision Transformer, as the released codes have them."""

import dataclasses
import math
from collections.abc import Callable

import flax.linen as nn
import jax
from flax.typing import Initializer
from jaxtyping import Array


def _flat_xavier(rng, shape, num_inputs):
  """Xavier-uniform of the matrix that the first `num_inputs` axes multiply."""
  rows = math.prod(shape[:num_inputs])
  flat = (rows, math.prod(shape) // rows)
  return nn.initializers.xavier_uniform()(rng, flat).reshape(shape)


def _normal(stddev):
  """Normal, whatever the array is multiplied by."""

  def draw(rng, shape, num_inputs):
    del num_inputs
    return stddev * jax.random.normal(rng, shape)

  return draw


def _torch_bias(fan_in):
  """Uniform, as PyTorch starts the bias of a layer of so many inputs."""
  bound = fan_in**-0.5
  return lambda rng, shape: jax.random.uniform(
    rng, shape, minval=-bound, maxval=bound
  )


@dataclasses.dataclass(frozen=True)
class Start:
  """Initializers of the layers.

  Attributes:
    matrix: Kernels of attention and MLPs, of (rng, shape, number of first axes
      that are summed over).
    mlp_bias: Biases of the MLPs; those of attention are zero.
    token: Class and distillation token.
    patch: Kernel of the embedding of patches.
    patch_bias: Initializer of its bias, by the number of inputs.
    head: Kernel of the classifier.
  """

  matrix: Callable[..., Array]
  mlp_bias: Initializer
  token: Initializer
  patch: Initializer
  patch_bias: Callable[[int], Initializer]
  head: Initializer


_ZEROS = nn.initializers.zeros
_VIT = Start(
  matrix=_flat_xavier,
  mlp_bias=nn.initializers.normal(1e-6),
  token=_ZEROS,
  patch=nn.initializers.lecun_normal(),
  patch_bias=lambda fan_in: _ZEROS,
  head=_ZEROS,
)
_DEIT = Start(
  matrix=_normal(0.02),
  mlp_bias=_ZEROS,
  token=nn.initializers.normal(0.02),
  # Uniform up to 1 / sqrt(inputs), as PyTorch starts convolutions.
  patch=nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform"),
  patch_bias=_torch_bias,
  head=nn.initializers.normal(0.02),
)
# Value of `config.model.weight_init` -> initializers.
STARTS = {
  "vit": _VIT,
  "deit": _DEIT,
  "dinov2": dataclasses.replace(_DEIT, token=nn.initializers.normal(1e-6)),
}
