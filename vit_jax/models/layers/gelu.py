"""GELU: exact, in the tanh form of the published models, or CLIP's."""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax.models.layers import placement

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_QUICK = 1.702
# log(Phi(x) / Phi(-x)) as an odd polynomial, coefficients from x upwards: the
# minimax approximation for |x| <= 5. It increases everywhere.
_LOGIT = (
  1.59545727,
  7.31439180e-2,
  -2.72972774e-4,
  -7.21764379e-5,
  4.51501184e-6,
  -1.21662570e-7,
  1.27698680e-9,
)


def gelu(x: Float[Array, "*b d"], kind: str) -> Float[Array, "*b d"]:
  """x Phi(x), with Phi the normal distribution, or an approximation of it.

  Args:
    x: Activations.
    kind: 'exact', 'tanh', or 'quick', which is x sigmoid(1.702 x) as in CLIP.
      'exact' uses `nearly_normal` for bfloat16 on TPUs.
  """
  return _KINDS[kind](x)


# All of them save only x, not intermediate results: that costs one more tanh or
# erf and saves several passes over the network's widest activations.


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

  GPUs have an exponential, but compute a float32 tanh from polynomials, and
  bfloat16 would be rounded after every operation: an H100 takes 4.3 ms instead
  of 5.8 for the backward passes of B/16 with 256 images.
  """
  wide = x.astype(jnp.float32)
  cubic = wide * (1 + _CUBIC * wide * wide)
  return jax.nn.sigmoid(2 * _SQRT_2_OVER_PI * cubic)


def _exact_gelu(x):
  # Determined here, as the platform is unknown when a backward pass is traced.
  on_tpu = placement.platform() == "tpu"
  return _normal_gelu(x, on_tpu and x.dtype == jnp.bfloat16)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _normal_gelu(x, rounds):
  wide = x.astype(jnp.float32)
  return (wide * _distribution(rounds)(wide)).astype(x.dtype)


def _normal_backward(rounds, x, gradient):
  wide = x.astype(jnp.float32)
  density = jnp.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
  derivative = _distribution(rounds)(wide) + wide * density
  return ((gradient.astype(jnp.float32) * derivative).astype(x.dtype),)


_normal_gelu.defvjp(
  lambda x, rounds: (_normal_gelu(x, rounds), x), _normal_backward
)


def _distribution(rounds):
  """The function that computes Phi, for results that `rounds` to bfloat16."""
  return nearly_normal if rounds else _normal_distribution


def _normal_distribution(x):
  # erf takes far fewer operations than the erfc of jax.nn.gelu.
  return 0.5 * (1 + jax.lax.erf(x * math.sqrt(0.5)))


def nearly_normal(x: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
  """Phi in float32, to a relative 1.1e-4 for x >= -5, and below 3e-7 before.

  bfloat16 rounds by up to 4e-3. TPUs have a sigmoid, whereas XLA considers an
  erf so costly that it keeps the results instead of recomputing them.
  """
  square = x * x
  slope = _LOGIT[-1]
  for coefficient in reversed(_LOGIT[:-1]):
    slope = slope * square + coefficient
  return jax.nn.sigmoid(x * slope)


@jax.custom_vjp
def _quick_gelu(x):
  return x * jax.nn.sigmoid(_QUICK * x)


def _quick_backward(x, gradient):
  gate = jax.nn.sigmoid(_QUICK * x)
  return (gradient * (gate + _QUICK * x * gate * (1 - gate)),)


_quick_gelu.defvjp(lambda x: (_quick_gelu(x), x), _quick_backward)

_KINDS = {"exact": _exact_gelu, "tanh": _tanh_gelu, "quick": _quick_gelu}
