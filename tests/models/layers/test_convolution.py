"""Standardised convolutions against NumPy, place by place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from vit_jax.models.layers.convolution import StandardizedConv, standardize

DEVIATIONS = {
  "in the root": (
    lambda variance: jnp.sqrt(variance + 1e-10),
    lambda variance: np.sqrt(variance + 1e-10),
  ),
  "outside": (
    lambda variance: jnp.sqrt(variance) + 1e-5,
    lambda variance: np.sqrt(variance) + 1e-5,
  ),
}
each_deviation = pytest.mark.parametrize(
  "ours, numpy", DEVIATIONS.values(), ids=DEVIATIONS
)


@each_deviation
@pytest.mark.parametrize("scale", [1.0, 1e-5])
def test_filters_are_standardised_by_definition(ours, numpy, scale):
  """Where filters are small, what is added to the variance tells."""
  rng = np.random.default_rng(0)
  kernel = scale * rng.standard_normal((3, 3, 4, 5)).astype(np.float32) + 0.01
  expected = oracle.standardize(kernel, numpy)
  np.testing.assert_allclose(
    standardize(jnp.asarray(kernel), ours), expected, rtol=2e-3, atol=1e-4
  )


@each_deviation
@pytest.mark.parametrize(
  "size, side, stride, padding, by_hand",
  [
    (1, 5, 1, None, (0, 0)),
    (1, 5, 2, None, (0, 0)),
    (1, 6, 2, 0, (0, 0)),
    (3, 5, 1, None, (1, 1)),
    (3, 6, 2, None, (0, 1)),  # 'SAME' is uneven here,
    (3, 6, 2, 1, (1, 1)),  # and ours is not.
    (3, 5, 2, None, (1, 1)),
    (7, 8, 2, None, (2, 3)),
    (7, 8, 2, 3, (3, 3)),
  ],
)
def test_result_is_the_definition(
  size, side, stride, padding, by_hand, ours, numpy
):
  rng = np.random.default_rng(1)
  x = rng.standard_normal((2, side, side, 4)).astype(np.float32)
  kernel = rng.standard_normal((size, size, 4, 3)).astype(np.float32)
  conv = StandardizedConv(3, size, stride, padding, ours, "float32")
  result = conv.apply({"params": {"kernel": kernel}}, jnp.asarray(x))
  expected = oracle.convolution(
    x, oracle.standardize(kernel, numpy), stride, by_hand
  )
  assert result.shape == expected.shape
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_filters_are_standardised_before_they_are_rounded():
  """In bfloat16 a mean far from 0 would leave nothing to standardise."""
  rng = np.random.default_rng(2)
  kernel = rng.standard_normal((1, 1, 64, 3)).astype(np.float32)
  conv = StandardizedConv(3, 1, 1, None, jnp.sqrt, "bfloat16")
  x = jnp.asarray(rng.standard_normal((1, 2, 2, 64)), jnp.bfloat16)

  def result(kernel):
    return conv.apply({"params": {"kernel": kernel}}, x).astype(jnp.float32)

  assert conv.apply({"params": {"kernel": kernel}}, x).dtype == jnp.bfloat16
  np.testing.assert_allclose(
    result(kernel + 1000), result(kernel), rtol=0.05, atol=0.05
  )


def test_a_filters_mean_and_size_have_no_gradient():
  rng = np.random.default_rng(3)
  kernel = rng.standard_normal((3, 3, 2, 4)).astype(np.float32)
  x = jnp.asarray(rng.standard_normal((1, 4, 4, 2)), jnp.float32)
  conv = StandardizedConv(4, 3, 1, 1, jnp.sqrt, "float32")

  def loss(kernel):
    return jnp.sum(jnp.sin(conv.apply({"params": {"kernel": kernel}}, x)))

  grad = np.asarray(jax.grad(loss)(jnp.asarray(kernel)))
  np.testing.assert_allclose(grad.sum((0, 1, 2)), 0, atol=1e-4)
  np.testing.assert_allclose((grad * kernel).sum((0, 1, 2)), 0, atol=1e-4)
