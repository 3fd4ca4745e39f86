"""GELU's two forms and their gradients."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from vit_jax.models.layers import placement
from vit_jax.models.layers.gelu import gelu, nearly_normal

X = jnp.linspace(-8, 8, 401)[None]


@pytest.fixture(params=["cpu", "gpu", "tpu"], autouse=True)
def platform(request, monkeypatch):
  """Each test holds for the formulas of GPUs and TPUs as well."""
  monkeypatch.setattr(placement, "platform", lambda: request.param)
  return request.param


@pytest.mark.parametrize("kind", ["tanh", "exact"])
def test_values_are_the_definition(kind):
  expected = oracle.gelu(np.asarray(X, np.float64), kind)
  np.testing.assert_allclose(gelu(X, kind), expected, rtol=1e-5, atol=1e-6)


def test_the_forms_differ():
  assert np.max(np.abs(gelu(X, "tanh") - gelu(X, "exact"))) > 1e-4


@pytest.mark.parametrize("kind, atol", [("tanh", 1e-5), ("exact", 1e-6)])
def test_gradients_are_those_of_the_definition(kind, atol):
  ours = jax.grad(lambda x: jnp.sum(gelu(x, kind)))(X)
  x, step = np.asarray(X, np.float64), 1e-5
  up, down = oracle.gelu(x + step, kind), oracle.gelu(x - step, kind)
  np.testing.assert_allclose(ours, (up - down) / (2 * step), atol=atol)


@pytest.mark.parametrize("kind", ["tanh", "exact"])
def test_a_result_of_bfloat16_is_rounded_once(kind, platform):
  if kind == "tanh" and platform != "gpu":
    pytest.skip("Every operation of jax.nn.gelu rounds.")
  x = X.astype(jnp.bfloat16)
  expected = oracle.gelu(np.asarray(x, np.float64), kind)
  found = gelu(x, kind)
  assert found.dtype == jnp.bfloat16
  np.testing.assert_allclose(
    found.astype(jnp.float32), expected, rtol=2**-8, atol=1e-6
  )


def every_bfloat16():
  """All finite numbers, and the same in float64."""
  x = jnp.arange(2**16, dtype=jnp.uint16).view(jnp.bfloat16)
  x = x[jnp.isfinite(x)]
  return x[None], np.asarray(x.astype(jnp.float32), np.float64)


def test_every_bfloat16_gets_the_nearest_one_or_its_neighbour():
  x, wide = every_bfloat16()
  wanted = wide * np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in wide])
  found = np.asarray(gelu(x, "exact")[0].astype(jnp.float32), np.float64)
  # Before -3.75 float32's own erf is off by more than a bfloat16 is.
  far = wide < -3.75
  np.testing.assert_allclose(
    found[~far], wanted[~far], rtol=1.03 * 2**-8, atol=2.0**-126
  )
  # Of numbers close to zero half is taken, and those far above are kept.
  some = ~far & (np.abs(wide) > 2**-6) & (wide < 4)
  nearest = jnp.asarray(wanted[some], jnp.float32).astype(jnp.bfloat16)
  places = [
    np.asarray(one.view(jnp.int16), np.int64)
    for one in (jnp.asarray(found[some], jnp.bfloat16), nearest)
  ]
  off = np.abs(places[0] - places[1])
  assert off.max() <= 1
  assert off.mean() < 0.005
  np.testing.assert_allclose(found[far], wanted[far], atol=2**-19)
  assert np.all(found * wide >= 0)


def test_the_slope_is_as_exact_at_every_bfloat16():
  x, wide = every_bfloat16()
  few = np.abs(wide) < 64
  x, wide = x[:, few], wide[few]
  _, pullback = jax.vjp(lambda x: gelu(x, "exact"), x)
  (found,) = pullback(jnp.ones_like(x))
  density = np.exp(-0.5 * wide**2) / math.sqrt(2 * math.pi)
  wanted = wide * density
  wanted += np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in wide])
  np.testing.assert_allclose(
    found[0].astype(jnp.float32), wanted, rtol=2**-8, atol=3e-5
  )


def test_what_tpus_round_is_near_the_distribution_and_grows():
  x = np.linspace(-8, 8, 20_001, dtype=np.float32)
  found = np.asarray(nearly_normal(jnp.asarray(x)), np.float64)
  wanted = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()])
  near = x >= -5
  np.testing.assert_allclose(found[near], wanted[near], rtol=1.1e-4)
  assert np.all(found[~near] < 3e-7) and np.all(found[~near] >= 0)
  # Within float32's rounding of a number close to one.
  assert np.all(np.diff(found) >= -(2.0**-23))


def test_bfloat16_alone_is_computed_without_erf_and_on_tpus_alone(platform):
  def names(dtype):
    return str(jax.make_jaxpr(lambda x: gelu(x, "exact"))(X.astype(dtype)))

  assert " erf " in names(jnp.float32)
  assert (" erf " in names(jnp.bfloat16)) == (platform != "tpu")
