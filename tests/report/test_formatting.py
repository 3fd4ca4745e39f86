import math

import numpy as np
import pytest

from vit_jax.report import formatting


@pytest.mark.parametrize(
  ("value", "text"),
  [(0, "0 images"), (1, "1 image"), (1.0, "1 image"), (1024, "1,024 images")],
)
def test_one_of_a_thing_is_singular(value, text):
  assert formatting.counted(value, "image") == text


@pytest.mark.parametrize(
  ("value", "text"),
  [
    (0.0, "0"),
    (1234.0, "1,234"),
    (0.03125, "0.03125"),
    (2.5e-5, "2.5×10⁻⁵"),
    (1e-4, "10⁻⁴"),
    (9.99999e-5, "10⁻⁴"),
    (-0.5, "−0.5"),
    (99999.6, "100,000"),
    (math.nan, "NaN"),
    (-math.inf, "−∞"),
    (None, "–"),
    (2.0**40, "1,099,511,627,776"),
    (1e30, "10³⁰"),
    (-1.23456e16, "−1.235×10¹⁶"),
  ],
)
def test_quantity_keeps_significant_digits(value, text):
  assert formatting.quantity(value) == text


@pytest.mark.parametrize(
  ("value", "text"),
  [
    (1281167, "1281167"),
    (np.int64(1281167), "1281167"),
    (np.float32(1281167), "1281167"),
    (0.0, "0"),
    (0.12345678, "0.123457"),
    (1234567.5, "1.23457e+06"),
    (1e30, "1e+30"),
    (math.nan, "nan"),
    (math.inf, "inf"),
  ],
)
def test_metrics_that_are_whole_are_written_whole(value, text):
  assert formatting.metric(value) == text


@pytest.mark.parametrize(
  ("value", "text"),
  [
    (0.042, "0.042 s"),
    (9.96, "10 s"),
    (59.4, "59 s"),
    (59.7, "1 min"),
    (125.0, "2 min 5 s"),
    (3 * 3600.0 + 12 * 60 + 40, "3 h 12 min"),
    (2 * 86400.0 + 4 * 3600, "2 d 4 h"),
    (None, "–"),
  ],
)
def test_seconds_use_the_two_largest_units(value, text):
  assert formatting.seconds(value) == text


def test_percent_rounds_and_passes_nan():
  assert formatting.percent(0.98765) == "98.77%"
  assert formatting.percent(1.0, 0) == "100%"
  assert formatting.percent(math.nan) == "NaN"


def test_interval_is_wilsons():
  # 10 of 20: Wilson (1927), as tabulated in Newcombe (1998): 0.299 to 0.701.
  low, high = formatting.interval95(0.5, 20)
  assert (low, high) == pytest.approx((0.2993, 0.7007), abs=1e-4)
  low, high = formatting.interval95(1.0, 100)
  assert (low, high) == pytest.approx((0.9630, 1.0), abs=1e-4)
