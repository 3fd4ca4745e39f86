"""GELU, exact or in the tanh form of the published models."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def gelu(x: Float[Array, "*b d"], kind: str) -> Float[Array, "*b d"]:
  """x Phi(x), with Phi the normal distribution; kind 'exact' or 'tanh'."""
  if kind == "exact":
    return jax.nn.gelu(x, approximate=False)
  return _tanh_gelu(x)


@jax.custom_vjp
def _tanh_gelu(x):
  return jax.nn.gelu(x, approximate=True)


def _forward(x):
  # Saving x alone, not the steps between, costs one tanh more and saves
  # several passes over the widest activations of the network.
  return _tanh_gelu(x), x


def _backward(x, gradient):
  square = x * x
  tanh = jnp.tanh(_SQRT_2_OVER_PI * x * (1 + _CUBIC * square))
  slope = _SQRT_2_OVER_PI * (1 + 3 * _CUBIC * square)
  derivative = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope
  return (gradient * derivative,)


_tanh_gelu.defvjp(_forward, _backward)
