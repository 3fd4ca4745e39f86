"""Masks: as many zeros as asked for, independent, and the same on any mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vit_jax.models.layers import dropout
from vit_jax.models.layers.dropout import Dropout, dropped_draws, keep_mask

SHAPE = (16, 65, 96)


def _mask(rate, shape=SHAPE, seed=0):
  return np.asarray(keep_mask(jax.random.key(seed), shape, dropped_draws(rate)))


def _apply(x, rate, *, deterministic=False, seed=0):
  module = Dropout(rate, deterministic)
  return module.apply({}, x, rngs={"dropout": jax.random.key(seed)})


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize(
  "shape", [SHAPE, (3, 1, 4096), (64, 197), (2, 2, 5, 999)]
)
def test_the_share_of_zeros_is_the_rate(rate, shape):
  kept = _mask(rate, shape)
  assert kept.shape == shape
  tolerance = 5 * np.sqrt(rate * (1 - rate) / kept.size)
  assert 1 - kept.mean() == pytest.approx(rate, abs=tolerance)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_place_is_zero_as_often(axis):
  rate, num_masks = 0.3, 40
  masks = np.stack([_mask(rate, (4, 9, 16), seed) for seed in range(num_masks)])
  others = tuple(i for i in range(4) if i != axis + 1)
  shares = 1 - masks.mean(others)
  counted = masks.size / shares.size
  tolerance = 5 * np.sqrt(rate * (1 - rate) / counted)
  np.testing.assert_allclose(shares, rate, atol=tolerance)


@pytest.mark.parametrize(
  "offset",
  [
    (0, 0, 1), (0, 1, 0), (1, 0, 0),
    # Draws of one block.
    (0, 24, 0), (0, 48, 0), (0, 72, 0),
  ],
)  # fmt: skip
def test_places_are_independent(offset):
  centred = _mask(0.5, (16, 96, 96)) - 0.5
  here = centred[tuple(slice(None, -k or None) for k in offset)]
  there = centred[tuple(slice(k, None) for k in offset)]
  correlation = np.mean(here * there) / 0.25
  assert abs(correlation) < 5 / np.sqrt(here.size)


def test_another_key_is_another_mask():
  one, same, other = (_mask(0.5, seed=seed) for seed in (0, 0, 1))
  np.testing.assert_array_equal(one, same)
  assert np.mean(one == other) == pytest.approx(0.5, abs=0.01)


def test_what_is_kept_is_scaled_so_that_the_mean_stays():
  rate = 0.1
  result = np.asarray(_apply(jnp.ones(SHAPE), rate))
  kept = result != 0
  probability = 1 - dropped_draws(rate) / 2**16
  assert probability == pytest.approx(1 - rate, abs=2**-17)
  np.testing.assert_allclose(result[kept], 1 / probability, rtol=1e-6)
  assert result.mean() == pytest.approx(1.0, abs=0.01)


def test_infinite_entries_that_are_dropped_are_zero():
  result = np.asarray(_apply(jnp.full(SHAPE, jnp.inf), 0.5))
  assert set(np.unique(result)) == {0.0, np.inf}


def test_gradients_pass_where_entries_do():
  x = jnp.full(SHAPE, 2.0)
  gradient = jax.grad(lambda x: jnp.sum(_apply(x, 0.3)))(x)
  np.testing.assert_allclose(gradient, _apply(x, 0.3) / 2.0, rtol=1e-6)


@pytest.mark.parametrize(
  ("rate", "deterministic"), [(0.0, False), (0.5, True), (1e-7, False)]
)
def test_without_dropout_nothing_changes_and_no_key_is_needed(
  rate, deterministic
):
  x = jnp.arange(24.0).reshape(2, 3, 4)
  np.testing.assert_array_equal(Dropout(rate, deterministic).apply({}, x), x)


def test_a_rate_near_one_keeps_something():
  result = np.asarray(_apply(jnp.ones((64, 64, 64)), 0.999999))
  assert 0 < np.count_nonzero(result) < 64


def test_bfloat16_stays_bfloat16():
  assert _apply(jnp.ones(SHAPE, jnp.bfloat16), 0.1).dtype == jnp.bfloat16


def _over_data_and_tensor():
  mesh = Mesh(np.asarray(jax.devices()[:4]).reshape(2, 2), ("data", "tensor"))
  return NamedSharding(mesh, PartitionSpec("data", None, "tensor"))


@pytest.mark.parametrize("shape", [(8, 17, 32), (8, 5, 16)])
def test_the_mesh_does_not_matter(shape):
  spread = _over_data_and_tensor()

  def masked(key):
    return keep_mask(key, shape, dropped_draws(0.4))

  key = jax.random.key(3)
  on_mesh = jax.jit(masked, out_shardings=spread)(key)
  np.testing.assert_array_equal(on_mesh, masked(key))


def test_devices_exchange_nothing_for_a_mask():
  spread = _over_data_and_tensor()

  def dropped(x, key):
    return jnp.where(keep_mask(key, x.shape, dropped_draws(0.4)), x, 0)

  x = jax.ShapeDtypeStruct(SHAPE, jnp.float32, sharding=spread)
  step = jax.jit(dropped, out_shardings=spread).lower(x, jax.random.key(0))
  text = step.compile().as_text()
  for exchange in ("all-gather", "all-to-all", "collective-permute"):
    assert exchange not in text


def test_a_block_of_random_bits_is_four_draws():
  shape = (4, 256, 32)
  program = jax.make_jaxpr(lambda key: keep_mask(key, shape, 100))
  drawn = [
    equation.outvars[0].aval.size
    for equation in program(jax.random.key(0)).eqns
    if equation.primitive is dropout.threefry2x32_p
  ]
  assert max(drawn) == np.prod(shape) // 4
