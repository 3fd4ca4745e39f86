"""Attention rollout in closed form."""

import numpy as np

from vit_jax.inspection import rollout


def through(*layers):
  rolled = rollout.start(layers[0].shape[-1])
  for maps in layers:
    rolled = rollout.through_layer(rolled, np.asarray(maps, np.float32))
  return np.asarray(rolled)


def random_maps(n, heads=3, seed=0):
  maps = np.random.default_rng(seed).random((heads, n, n))
  return maps / maps.sum(axis=-1, keepdims=True)


def test_attention_to_itself_leaves_every_token_as_it_was():
  identity = np.eye(5)[None]
  np.testing.assert_array_equal(through(identity, identity), np.eye(5))


def test_uniform_attention_halves_what_is_left_of_a_token_per_layer():
  # With U of all 1/n, U U = U, so ((I + U) / 2)^L = 2^-L I + (1 - 2^-L) U.
  n = 4
  uniform = np.full((n, n), 1 / n)
  left = 2.0**-3
  np.testing.assert_allclose(
    through(*[uniform[None]] * 3),
    left * np.eye(n) + (1 - left) * uniform,
    rtol=1e-6,
  )


def test_rows_are_distributions():
  rolled = through(random_maps(6), random_maps(6, seed=1))
  assert rolled.min() >= 0
  np.testing.assert_allclose(rolled.sum(axis=-1), 1, rtol=1e-6)


def test_later_layers_mix_what_earlier_ones_made():
  first, second = random_maps(3), random_maps(3, seed=1)
  mixed = [(maps.mean(axis=0) + np.eye(3)) / 2 for maps in (first, second)]
  np.testing.assert_allclose(
    through(first, second), mixed[1] @ mixed[0], rtol=1e-6
  )
  assert not np.allclose(through(second, first), mixed[1] @ mixed[0])
