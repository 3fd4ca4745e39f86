"""Tokens in some places of each example."""

import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.layers import token_places


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tokens_are_taken_exactly(dtype):
  rng = np.random.default_rng(0)
  tokens = jnp.asarray(rng.normal(size=(2, 5, 3)), dtype)
  places = jnp.array([[4, 0, -1], [2, 2, 1]])
  found = token_places.take(tokens, places)
  assert found.dtype == tokens.dtype
  assert found.tolist() == [
    [tokens[0, 4].tolist(), tokens[0, 0].tolist(), [0, 0, 0]],
    [tokens[1, i].tolist() for i in (2, 2, 1)],
  ]


def test_tokens_are_put_back_among_zeros():
  rng = np.random.default_rng(0)
  tokens = jnp.asarray(rng.normal(size=(2, 5, 3)), jnp.float32)
  places = jnp.array([[4, 0], [2, 1]])
  found = token_places.put(token_places.take(tokens, places), places, 5)
  kept = np.zeros((2, 5, 1))
  np.put_along_axis(kept, np.asarray(places)[:, :, None], 1, axis=1)
  np.testing.assert_array_equal(found, tokens * kept)
