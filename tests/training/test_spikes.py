"""Which steps stand out, and what is remembered of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.training import spikes

update = jax.jit(spikes.update, static_argnames="zscore")


def watch(losses, grad_norms=None, *, zscore=6.0):
  """The steps that are spikes, and the last statistics."""
  grad_norms = np.ones(len(losses)) if grad_norms is None else grad_norms
  statistics, found = spikes.init(), []
  for step, values in enumerate(zip(losses, grad_norms, strict=True)):
    loss, norm = map(jnp.float32, values)
    statistics, spike = update(statistics, loss, norm, zscore=zscore)
    if spike:
      found.append(step)
  return found, jax.device_get(statistics)


@pytest.fixture
def noise():
  rng = np.random.default_rng(0)
  return 2 + 0.1 * rng.normal(size=2000)


def test_noise_is_no_spike(noise):
  assert watch(noise)[0] == []
  assert watch(noise, np.exp(np.flip(noise)))[0] == []


def test_a_falling_loss_is_no_spike(noise):
  falling = noise * np.exp(-np.arange(2000) / 500)
  assert watch(falling)[0] == []


def test_spikes_of_either_are_found(noise):
  noise[[300, 301, 900]] += 5
  norms = 1 + 0.1 * np.random.default_rng(1).normal(size=2000)
  norms[1500] = 9
  assert watch(noise, norms)[0] == [300, 301, 900, 1500]


def test_the_first_steps_are_not_judged(noise):
  noise[spikes.WINDOW - 1] = 100
  assert watch(noise[: spikes.WINDOW + 5])[0] == []


def test_a_new_level_is_got_used_to(noise):
  noise[500:] += 5
  found, statistics = watch(noise)
  assert 500 in found and max(found) < 600
  assert statistics.mean[0] == pytest.approx(7, rel=0.05)


def test_a_loss_that_did_not_change_is_no_measure(noise):
  """As of a head that is held at zero: the logarithm of the classes."""
  held = np.full(500, np.log(1000))
  after = np.log(1000) + noise[500:] - 2
  after[300] += 5
  found, statistics = watch(np.concatenate([held, after]))
  assert found == [800]
  level = np.mean(after[-100:])
  assert statistics.mean[0] == pytest.approx(level, abs=0.05)


def test_what_is_not_finite_changes_nothing(noise):
  expected = watch(noise[:300])[1]
  with_nan = np.insert(noise[:300], [50, 200], [np.nan, np.inf])
  found, statistics = watch(with_nan)
  assert found == []
  np.testing.assert_array_equal(statistics.mean, expected.mean)
  np.testing.assert_array_equal(statistics.variance, expected.variance)
  assert statistics.count == 300


def test_the_first_steps_count_alike(noise):
  _, statistics = watch(noise[: spikes.WINDOW])
  first = noise[: spikes.WINDOW]
  np.testing.assert_allclose(statistics.mean[0], first.mean(), rtol=1e-5)
  np.testing.assert_allclose(statistics.variance[0], first.var(), rtol=1e-3)
