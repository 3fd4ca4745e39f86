"""The codes of VQ-KD, beside NumPy and norm_ema_quantizer.py."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.objectives.vqkd import codebook


def unit(x):
  return x / np.linalg.norm(x, axis=-1, keepdims=True)


def vectors(*shape, seed=0):
  return unit(np.random.default_rng(seed).standard_normal(shape))


def test_codes_move_to_the_mean_direction_of_their_vectors():
  codes, x = vectors(5, 3), vectors(2, 7, 3, seed=1)
  tokens = np.random.default_rng(2).integers(0, 4, (2, 7))
  counts, sums = codebook.assigned(jnp.asarray(tokens), jnp.float32(x), count=5)
  found = codebook.updated(jnp.float32(codes), counts / 2, sums / 2, 0.9)
  for i, code in enumerate(codes):
    own = x[tokens == i]
    wanted = unit(own.sum(axis=0)) if len(own) else code
    wanted = unit(0.9 * code + 0.1 * wanted)
    np.testing.assert_allclose(found[i], wanted, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(counts, np.bincount(tokens.flat, minlength=5))
  assert counts[4] == 0


def test_the_first_codes_are_the_centres_of_clusters():
  centres = vectors(4, 16)
  rng = np.random.default_rng(3)
  noise = 0.05 * rng.standard_normal((40, 20, 16))
  x = unit(centres[rng.integers(0, 4, (40, 20))] + noise)
  best = 0.0
  # Two centres may start in the same cluster.
  for seed in range(4):
    found = jax.jit(codebook.start, static_argnums=2)(
      jax.random.key(seed), jnp.float32(x), 4
    )
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    best = max(best, (centres @ np.asarray(found).T).max(axis=1).min())
  assert best > 0.995


def test_there_may_be_more_codes_than_vectors():
  x = jnp.float32(vectors(1, 3, 4))
  found = codebook.start(jax.random.key(0), x, 8)
  nearest = (np.asarray(found) @ np.asarray(x[0]).T).max(axis=1)
  np.testing.assert_allclose(nearest, 1, rtol=1e-5)
