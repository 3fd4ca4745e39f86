"""Initial values of a Vision Transformer, as in the released code."""

import dataclasses
import functools
import math
from collections.abc import Callable

import flax.linen as nn
import jax
from flax.typing import Initializer
from jaxtyping import Array

# Initialiser of a matrix, called with (rng, shape, number of leading axes
# summed over).
Matrix = Callable[..., Array]


def _xavier(joined: int = 1) -> Matrix:
  """Xavier-uniform, for `joined` matrices that are one in the released code."""

  def draw(rng, shape, num_inputs):
    rows = math.prod(shape[:num_inputs])
    flat = (rows, math.prod(shape) // rows)
    if joined == 1:
      return nn.initializers.xavier_uniform()(rng, flat).reshape(shape)
    bound = math.sqrt(6 / (rows + joined * flat[1]))
    return _uniform(bound)(rng, shape)

  return draw


def _normal(stddev: Callable[[int, int], float] | float) -> Matrix:
  """Normal; the deviation may be a function of inputs and outputs."""

  def draw(rng, shape, num_inputs):
    rows = math.prod(shape[:num_inputs])
    columns = math.prod(shape) // rows
    scale = stddev(rows, columns) if callable(stddev) else stddev
    return scale * jax.random.normal(rng, shape)

  return draw


def _uniform(bound: float) -> Initializer:
  return lambda rng, shape, *dtype: jax.random.uniform(
    rng, shape, minval=-bound, maxval=bound
  )


def _torch_matrix(rng, shape, num_inputs):
  """PyTorch's initial values of linear layers and convolutions."""
  return _uniform(math.prod(shape[:num_inputs]) ** -0.5)(rng, shape)


def _torch_bias(num_inputs: int) -> Initializer:
  return _uniform(num_inputs**-0.5)


def _constant(initializer: Initializer) -> Callable[[int], Initializer]:
  return lambda size: initializer


@dataclasses.dataclass(frozen=True)
class Start:
  """Initializers of the layers.

  Attributes:
    inward: Kernels of queries, keys and values.
    hidden: Kernels of the first layers of MLPs.
    outward: Kernels of the layers whose results are added to the tokens: the
      outputs of attention and of MLPs.
    mlp_bias: Biases of MLPs, by number of inputs; those of attention are zero.
    token: Class and distillation tokens, by width.
    patch: Kernel of the patch embedding.
    patch_bias: Bias of the patch embedding, by number of inputs.
    head: Kernel of the classifier.
  """

  inward: Matrix
  hidden: Matrix
  outward: Matrix
  mlp_bias: Callable[[int], Initializer]
  token: Callable[[int], Initializer]
  patch: Matrix
  patch_bias: Callable[[int], Initializer]
  head: Initializer


_ZEROS = nn.initializers.zeros


def _lecun(rng, shape, num_inputs):
  del num_inputs
  return nn.initializers.lecun_normal()(rng, shape)


VIT = Start(
  inward=_xavier(),
  hidden=_xavier(),
  outward=_xavier(),
  mlp_bias=_constant(nn.initializers.normal(1e-6)),
  token=_constant(_ZEROS),
  patch=_lecun,
  patch_bias=_constant(_ZEROS),
  head=_ZEROS,
)
_DEIT = Start(
  inward=_normal(0.02),
  hidden=_normal(0.02),
  outward=_normal(0.02),
  mlp_bias=_constant(_ZEROS),
  token=_constant(nn.initializers.normal(0.02)),
  patch=_torch_matrix,
  patch_bias=_torch_bias,
  head=nn.initializers.normal(0.02),
)
_DINOV2 = dataclasses.replace(
  _DEIT, token=_constant(nn.initializers.normal(1e-6))
)
# Image towers start from PyTorch's own values, with queries, keys and values in
# one matrix.
_CLIP = Start(
  inward=_xavier(joined=3),
  hidden=_torch_matrix,
  outward=_torch_matrix,
  mlp_bias=_torch_bias,
  token=lambda width: nn.initializers.normal(width**-0.5),
  patch=_torch_matrix,
  patch_bias=_torch_bias,
  head=_ZEROS,
)


@functools.cache
def of(name: str, depth: int) -> Start:
  """Initializers for `config.model.weight_init` and a network of this depth."""
  if name != "clip_text":
    return _STARTS[name]
  of_branch = (2 * depth) ** -0.5
  return dataclasses.replace(
    _CLIP,
    inward=_normal(lambda inputs, outputs: inputs**-0.5),
    hidden=_normal(lambda inputs, outputs: (2 * inputs) ** -0.5),
    outward=_normal(lambda inputs, outputs: outputs**-0.5 * of_branch),
  )


_STARTS = {"vit": VIT, "deit": _DEIT, "dinov2": _DINOV2, "clip": _CLIP}
