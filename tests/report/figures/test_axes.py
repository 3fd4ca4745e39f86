import numpy as np
import pytest

from vit_jax.report import formatting
from vit_jax.report.figures import axes


@pytest.mark.parametrize(
  ("low", "high"),
  [(0, 1500), (0.03, 2.3), (-5, 5), (0.981, 0.9834), (3, 3), (0, 0), (-2, -2)],
)
def test_a_linear_axis_covers_its_range_with_few_round_ticks(low, high):
  axis = axes.linear(float(low), float(high), 100.0, 0.0, "{:g}".format)
  assert axis.low <= low and axis.high >= high
  assert 2 <= len(axis.ticks) <= 9
  assert all(len(text) <= 7 for _, text in axis.ticks)
  assert axis.place(axis.low) == 100 and axis.place(axis.high) == 0


@pytest.mark.parametrize("span", [(0, 1), (1, 2), (1, 1), (0, 3), (0, 12)])
def test_whole_numbers_have_whole_ticks(span):
  axis = axes.linear(
    *map(float, span), 0.0, 100.0, "{:g}".format, widen=False, whole=True
  )
  assert 1 <= len(axis.ticks) <= 6
  assert all(text.isdecimal() for _, text in axis.ticks)


@pytest.mark.parametrize(
  ("low", "high"),
  [
    (1.38625, 1.38645),
    (1.386294, 1.3862943),
    (0.99981, 0.99987),
    (-2.30262, -2.3025),
    (0.0025, 0.01),
    (1.0, 1.01),
    (3.0, 3.0),
  ],
)
@pytest.mark.parametrize("unit", [1, 100])
def test_a_label_says_its_tick_on_a_plateau_too(low, high, unit):
  label = formatting.tick if unit == 1 else formatting.percent_tick
  axis = axes.linear(low, high, 100.0, 0.0, label)
  assert axis.low <= low and axis.high >= high
  assert len(axis.ticks) >= 2
  for value, text in axis.ticks:
    number = float(text.strip("%").replace("−", "-"))
    assert number == pytest.approx(unit * value, rel=1e-11)
    assert len(text.strip("−%")) <= 7


@pytest.mark.parametrize(
  ("low", "high", "end"), [(0.97, 1, 1), (1, 1, 1), (0, 0.9, 1), (0, 1.2, 1.25)]
)
def test_an_axis_ends_at_the_most_that_can_be(low, high, end):
  axis = axes.linear(float(low), float(high), 100.0, 0.0, str, top=1.0)
  assert axis.high == end
  assert low <= axis.ticks[-1][0] <= end


@pytest.mark.parametrize(
  ("low", "high"), [(0.02, 2.3), (1e-9, 1e4), (0.8, 0.9), (1.0, 30.0)]
)
def test_a_log_axis_covers_its_range_with_few_ticks(low, high):
  axis = axes.logarithmic(low, high, 100.0, 0.0, "{:g}".format)
  assert 0 <= axis.place(high) < axis.place(low) <= 100
  assert len(axis.ticks) <= 10


def test_a_log_axis_of_one_value_has_it_in_the_middle():
  axis = axes.logarithmic(5.0, 5.0, 100.0, 0.0, str)
  assert axis.place(5.0) == pytest.approx(50)


def test_a_log_axis_has_no_place_for_zero():
  axis = axes.logarithmic(0.1, 10.0, 0.0, 100.0, str)
  positions = axis.at(np.array([0.0, -1.0, 1.0]))
  np.testing.assert_array_equal(np.isnan(positions), [True, True, False])
  assert positions[2] == pytest.approx(50)
