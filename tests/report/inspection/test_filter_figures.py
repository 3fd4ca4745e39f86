"""Pictures of filters."""

import numpy as np

from vit_jax.report.inspection import filter_figures

RNG = np.random.default_rng(0)


def test_zero_weights_are_grey_and_the_largest_of_a_filter_is_full():
  components = np.zeros((2, 2, 2, 3))
  components[0, 0, 0] = [0.5, -0.5, 0.25]
  pixels = filter_figures.pixels(components)
  assert pixels[0, 0, 0].tolist() == [255, 0, 191]
  assert pixels[0, 1, 1].tolist() == pixels[1, 0, 0].tolist() == [128] * 3


def test_filters_say_how_many_and_how_much_they_hold():
  components = RNG.standard_normal((9, 4, 4, 3))
  shares = np.full(9, 0.1)
  figure = filter_figures.draw(components, shares, 1024)
  assert "first 9 principal" in figure.caption
  assert "1,024 filters" in figure.caption and "90.0%" in figure.caption
  assert figure.numbers["filters"] is components


def test_steps_are_rows_of_the_components_that_all_have():
  components = [RNG.standard_normal((k, 4, 4, 3)) for k in (28, 28, 28)]
  figure = filter_figures.over_training([100, 2500, 9000], components)
  assert figure.numbers["training_steps"].tolist() == [100, 2500, 9000]
  assert figure.numbers["training_filters"].shape == (3, 28, 4, 4, 3)
  assert "first 7 principal" in figure.caption
  one = filter_figures.over_training([100], components[:1])
  assert figure.canvas.height > one.canvas.height + 2 * 52
