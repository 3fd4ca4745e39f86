"""GELU's two forms and the tanh form's gradient."""

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
