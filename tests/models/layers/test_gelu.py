"""GELU's two forms and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from vit_jax.models.layers.gelu import gelu

X = jnp.linspace(-8, 8, 401)[None]


@pytest.mark.parametrize("kind", ["tanh", "exact"])
def test_values_are_the_definition(kind):
  expected = oracle.gelu(np.asarray(X, np.float64), kind)
  np.testing.assert_allclose(gelu(X, kind), expected, rtol=1e-5, atol=1e-6)


def test_the_forms_differ():
  assert np.max(np.abs(gelu(X, "tanh") - gelu(X, "exact"))) > 1e-4


def test_tanh_gradient_is_that_of_automatic_differentiation():
  ours = jax.grad(lambda x: jnp.sum(gelu(x, "tanh")))(X)
  theirs = jax.grad(lambda x: jnp.sum(jax.nn.gelu(x)))(X)
  np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=5e-6)


def test_exact_gradient_is_that_of_the_definition():
  ours = jax.grad(lambda x: jnp.sum(gelu(x, "exact")))(X)
  x, step = np.asarray(X, np.float64), 1e-5
  up, down = oracle.gelu(x + step, "exact"), oracle.gelu(x - step, "exact")
  np.testing.assert_allclose(ours, (up - down) / (2 * step), atol=1e-6)


def test_the_exact_form_of_bfloat16_is_rounded_once():
  x = X.astype(jnp.bfloat16)
  expected = oracle.gelu(np.asarray(x, np.float64), "exact")
  found = gelu(x, "exact")
  assert found.dtype == jnp.bfloat16
  np.testing.assert_allclose(
    found.astype(jnp.float32), expected, rtol=2**-8, atol=1e-6
  )
