"""GELU's two forms and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from vit_jax.models.layers import placement
from vit_jax.models.layers.gelu import gelu

X = jnp.linspace(-8, 8, 401)[None]


@pytest.fixture(params=["cpu", "gpu"], autouse=True)
def platform(request, monkeypatch):
  """Each test holds for the formulas of GPUs as well."""
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
  if (kind, platform) == ("tanh", "cpu"):
    pytest.skip("Every operation of jax.nn.gelu rounds.")
  x = X.astype(jnp.bfloat16)
  expected = oracle.gelu(np.asarray(x, np.float64), kind)
  found = gelu(x, kind)
  assert found.dtype == jnp.bfloat16
  np.testing.assert_allclose(
    found.astype(jnp.float32), expected, rtol=2**-8, atol=1e-6
  )
