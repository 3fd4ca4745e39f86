"""GELU, exact or in the tanh form of the published models."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def gelu(x: Float[Array, "*b d"], kind: str) -> Float[Array, "*b d"]:
  """x Phi(x), with Phi the normal distribution; kind 'exact' or 'tanh'."""
  return _exact_gelu(x) if kind == "exact" else _tanh_gelu(x)


# Both save x alone, not the steps between: that costs a tanh or an erf more
# and saves several passes over the widest activations of the network.


@jax.custom_vjp
def _tanh_gelu(x):
  return jax.nn.gelu(x, approximate=True)


def _tanh_backward(x, gradient):
  square = x * x
  tanh = jnp.tanh(_SQRT_2_OVER_PI * x * (1 + _CUBIC * square))
  slope = _SQRT_2_OVER_PI * (1 + 3 * _CUBIC * square)
  derivative = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope
  return (gradient * derivative,)


_tanh_gelu.defvjp(lambda x: (_tanh_gelu(x), x), _tanh_backward)


@jax.custom_vjp
def _exact_gelu(x):
  wide = x.astype(jnp.float32)
  return (wide * _normal_distribution(wide)).astype(x.dtype)


def _exact_backward(x, gradient):
  wide = x.astype(jnp.float32)
  density = jnp.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
  derivative = _normal_distribution(wide) + wide * density
  return ((gradient.astype(jnp.float32) * derivative).astype(x.dtype),)


_exact_gelu.defvjp(lambda x: (_exact_gelu(x), x), _exact_backward)


def _normal_distribution(x):
  # By erf, which takes far fewer operations than jax.nn.gelu's erfc.
  return 0.5 * (1 + jax.lax.erf(x * math.sqrt(0.5)))
