import numpy as np
import pytest

from vit_jax.report import smoothing


def test_the_mean_is_that_of_the_window():
  values = np.random.default_rng(0).normal(size=30)
  mean = smoothing.centred_mean(values, 5)
  for k in range(30):
    expected = values[max(k - 2, 0) : k + 3].mean()
    np.testing.assert_allclose(mean[k], expected, rtol=1e-10)


def test_a_huge_value_changes_the_mean_of_its_own_windows_alone():
  values = np.full(200, 2.0)
  values[50] = 1e20
  mean = smoothing.centred_mean(values, 9)
  away = np.abs(np.arange(200) - 50) > 4
  np.testing.assert_array_equal(mean[away], 2.0)
  np.testing.assert_allclose(mean[~away], 1e20 / 9)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_a_window_may_be_longer_than_what_is_there(length):
  mean = smoothing.centred_mean(np.full(length, 3.0), 5)
  np.testing.assert_array_equal(mean, np.full(length, 3.0))


def test_gaps_stay_and_do_not_spread():
  values = np.array([1.0, 1.0, np.nan, 1.0, np.inf, 1.0])
  mean = smoothing.centred_mean(values, 3)
  np.testing.assert_array_equal(mean, [1, 1, np.nan, 1, np.nan, 1])


def test_few_records_are_not_smoothed():
  assert smoothing.window_length(19) == 1
  assert smoothing.window_length(1000) % 2 == 1


def test_thinning_keeps_ends_peaks_and_gaps():
  steps = np.arange(100_000)
  values = np.sin(steps / 3000.0)
  values[[777, 50_001]] = [9.0, -9.0]
  values[60_000] = np.nan
  kept, thinned = smoothing.thin(steps, values)
  assert len(kept) <= 1.5 * smoothing.MAX_POINTS
  assert {0, 777, 50_001, 60_000, 99_999} <= set(kept.tolist())
  np.testing.assert_array_equal(thinned, values[kept])
