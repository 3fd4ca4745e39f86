"""The projection head of DINO: vision_transformer.py's DINOHead."""

import math

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vit_jax.models.layers.gelu import gelu

# Added to lengths before dividing by them, as in torch's normalize.
_EPSILON = 1e-12


class Head(nn.Module):
  """Maps features to directions; holds the prototypes compared with them.

  Attributes:
    num_prototypes: Number of prototypes.
    hidden_width: Width of the hidden layers.
    bottleneck: Dimension of directions and prototypes.
    unit_prototypes: True if prototypes have unit length; otherwise each length
      is learned.
    dtype: Compute dtype.
    num_layers: Layers of the MLP.
    weight_norm: False for prototypes that are rows of a linear layer.
  """

  num_prototypes: int
  hidden_width: int = 2048
  bottleneck: int = 256
  unit_prototypes: bool = True
  dtype: str = "float32"
  num_layers: int = 3
  weight_norm: bool = True

  @nn.compact
  def __call__(
    self, features: Float[Array, "*b d"]
  ) -> tuple[Float[Array, "*b e"], Float[Array, "k e"]]:
    """Returns directions in the compute dtype, and prototypes in float32."""
    x = features.astype(self.dtype)
    for layer in range(self.num_layers):
      is_last = layer == self.num_layers - 1
      x = nn.Dense(
        self.bottleneck if is_last else self.hidden_width,
        dtype=self.dtype,
        kernel_init=nn.initializers.normal(0.02),
        name=f"Dense_{layer}",
      )(x)
      x = x if is_last else gelu(x, "exact")
    return unit(x.astype(jnp.float32)).astype(self.dtype), Prototypes(
      self.num_prototypes,
      self.bottleneck,
      self.unit_prototypes,
      self.weight_norm,
      name="prototypes",
    )()


class Prototypes(nn.Module):
  """Directions, and lengths if they are learned; or rows of a linear layer.

  Directions are initialised as torch's Linear, because the released layer is
  created after the others are initialised. Rows start like the head's
  other layers, as in DINOv3.
  """

  num_prototypes: int
  width: int
  unit: bool
  weight_norm: bool = True

  @nn.compact
  def __call__(self) -> Float[Array, "k e"]:
    shape = (self.num_prototypes, self.width)
    if not self.weight_norm:
      return self.param("kernel", nn.initializers.normal(0.02), shape)
    bound = 1 / math.sqrt(self.width)
    kernel = self.param(
      "kernel",
      lambda rng, shape: nn.initializers.uniform(2 * bound)(rng, shape) - bound,
      shape,
    )
    rows = unit(kernel)
    if self.unit:
      return rows
    ones = nn.initializers.ones
    return rows * self.param("length", ones, (self.num_prototypes, 1))


def unit(x: Float[Array | np.ndarray, "*b e"]) -> Float[Array, "*b e"]:
  """Scales vectors to unit length."""
  squares = jnp.sum(jnp.square(x), axis=-1, keepdims=True)
  # A square root has no gradient at 0.
  return x / jnp.sqrt(jnp.maximum(squares, _EPSILON**2))
