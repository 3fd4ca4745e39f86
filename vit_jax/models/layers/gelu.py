"""GELU: exact, in the tanh form of the published models, or CLIP's."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers import placement

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_QUICK = 1.702


def gelu(x: Float[Array, "*b d"], kind: str) -> Float[Array, "*b d"]:
  """x Phi(x), with Phi the normal distribution, or an approximation of it.

  Args:
    x: Activations.
    kind: 'exact', 'tanh', or 'quick', which is x sigmoid(1.702 x) as in CLIP.
  """
  return _KINDS[kind](x)


# All save x alone, not the steps between: that costs a tanh or an erf more
# and saves several passes over the widest activations of the network.


@jax.custom_vjp
def _tanh_gelu(x):
  if placement.platform() == "gpu":
    return (x.astype(jnp.float32) * _gate(x)).astype(x.dtype)
  return jax.nn.gelu(x, approximate=True)


def _tanh_backward(x, gradient):
  if placement.platform() == "gpu":
    wide, gate = x.astype(jnp.float32), _gate(x)
    slope = _SQRT_2_OVER_PI * (1 + 3 * _CUBIC * wide * wide)
    derivative = gate + 2 * wide * gate * (1 - gate) * slope
    return ((gradient.astype(jnp.float32) * derivative).astype(x.dtype),)
  square = x * x
  tanh = jnp.tanh(_SQRT_2_OVER_PI * x * (1 + _CUBIC * square))
  slope = _SQRT_2_OVER_PI * (1 + 3 * _CUBIC * square)
  derivative = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope
  return (gradient * derivative,)


_tanh_gelu.defvjp(lambda x: (_tanh_gelu(x), x), _tanh_backward)


def _gate(x):
  """(1 + tanh u) / 2 as sigmoid(2 u), in float32.

  GPUs have an exponential, but compute a tanh of float32 from polynomials, and
  bfloat16 would be rounded after every operation: an H100 takes 4.3 ms in place
  of 5.8 for the backward passes of B/16, 256 images.
  """
  wide = x.astype(jnp.float32)
  cubic = wide * (1 + _CUBIC * wide * wide)
  return jax.nn.sigmoid(2 * _SQRT_2_OVER_PI * cubic)


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


@jax.custom_vjp
def _quick_gelu(x):
  return x * jax.nn.sigmoid(_QUICK * x)


def _quick_backward(x, gradient):
  gate = jax.nn.sigmoid(_QUICK * x)
  return (gradient * (gate + _QUICK * x * gate * (1 - gate)),)


_quick_gelu.defvjp(lambda x: (_quick_gelu(x), x), _quick_backward)

_KINDS = {"exact": _exact_gelu, "tanh": _tanh_gelu, "quick": _quick_gelu}
