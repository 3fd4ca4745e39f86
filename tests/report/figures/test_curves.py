import re

import numpy as np

from vit_jax.report.figures import curves
from vit_jax.report.run import Series


def draw(values, scale=None, name="train <b>", **options):
  series = Series(np.arange(1, len(values) + 1), np.array(values, float))
  return curves.draw(
    [curves.Line(name, series, **options)],
    unit="loss",
    label="Loss",
    scale=scale or curves.Scale("auto"),
    span=(0.0, float(len(values))),
  )


def test_a_wide_span_is_drawn_logarithmically():
  assert ">0.01<" in draw([1, 0.1, 0.01])
  assert ">0.01<" not in draw([1, 0.9, 0.8])


def test_ticks_of_a_plateau_read_differently():
  figure = draw([1.38626, 1.38634, 1.38644])
  ticks = re.findall(r'class="tick end"[^>]*>([^<]+)<', figure)
  assert len(ticks) > 3 and len(set(ticks)) == len(ticks)
  assert ticks == sorted(ticks, key=float)


def test_a_value_that_is_not_finite_breaks_the_line_and_is_crossed():
  figure = draw([1, 2, np.nan, 2, 1])
  (path,) = re.findall(r'd="(M[^"]+)" class="line', figure)
  assert path.count("M") == 2
  assert figure.count('class="lost"') == 1


def test_points_are_named_by_line_and_step():
  titles = re.findall("<title>([^<]+)</title>", draw([0.5, np.nan], name="a"))
  assert titles == ["a, step 1: 0.5", "a, step 2: not a finite number"]
  titles = re.findall("<title>([^<]+)</title>", draw([0.5, np.nan], name=""))
  assert titles == ["step 1: 0.5", "step 2: not a finite number"]


def test_nothing_finite_gives_no_figure():
  assert draw([np.nan, np.inf]) is None
  assert draw([]) is None


def test_a_noisy_line_has_itself_behind():
  values = np.random.default_rng(0).random(100)
  assert 'class="raw' in draw(values, smooth=True)
  assert 'class="raw' not in draw(values)


def test_names_are_escaped():
  assert "<b>" not in draw([1, 2])
