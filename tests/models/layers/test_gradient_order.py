"""The order in a TPU's memory that a gradient is held to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.layers import gradient_order


def gradient(tokens: jax.Array, of_result: jax.Array) -> jax.Array:
  return jax.vjp(gradient_order.fill_lanes, tokens)[1](of_result)[0]


@pytest.mark.parametrize(
  "length, width, order",
  [
    (197, 192, "dense<[1, 2, 0]>"),
    (65, 192, "dense<[2, 1, 0]>"),
    # All lanes are full: the compiler is free.
    (37, 384, None),
    (197, 768, None),
  ],
)
def test_channels_that_leave_lanes_empty_are_held_to_an_order(
  length, width, order
):
  tokens = jnp.ones((2, length, width))
  of_result = jnp.asarray(np.random.default_rng(0).normal(size=tokens.shape))
  text = jax.jit(gradient).lower(tokens, of_result).as_text()
  assert ("@LayoutConstraint" in text) == (order is not None)
  assert order is None or order in text
  np.testing.assert_array_equal(gradient(tokens, of_result), of_result)
