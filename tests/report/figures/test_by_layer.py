"""Charts: axes, marks and the legend."""

import io

import numpy as np
from PIL import Image

from vit_jax.report.figures import by_layer, canvas, frame, raster

LAYERS = np.arange(1.0, 5.0)


def drawn(*series, **options):
  chart = by_layer.draw(series, x_label="layer", y_label="pixels", **options)
  picture = raster.paint(chart)
  with Image.open(io.BytesIO(picture.png())) as image:
    return np.asarray(image.reduce(canvas.SCALE)).astype(int)


def height(picture, colour):
  """The mean row of pixels that are nearly of a colour, below the legend."""
  far = np.abs(picture[30:] - np.array(colour)).max(axis=-1)
  return np.argwhere(far < 40)[:, 0].mean()


def test_larger_values_are_higher_and_keep_their_colours():
  low = by_layer.Series("low", LAYERS, np.full(4, 2.0), "#ff0000")
  high = by_layer.Series("high", LAYERS, np.full(4, 9.0), "#0000ff")
  picture = drawn(low, high)
  assert height(picture, (0, 0, 255)) < height(picture, (255, 0, 0))


def test_an_axis_begins_at_zero_unless_told_otherwise():
  one = by_layer.Series("one", LAYERS, np.linspace(8, 9, 4), "#ff0000")
  from_zero, close = drawn(one), drawn(one, from_zero=False)

  def rows(picture):
    is_red = (picture[30:, :, 0] > 200) & (picture[30:, :, 1] < 90)
    return np.ptp(np.argwhere(is_red)[:, 0])

  assert rows(close) > 4 * rows(from_zero)


def test_values_that_are_all_the_same_can_be_drawn():
  one = by_layer.Series("one", np.ones(1), np.zeros(1), "#ff0000", "dots")
  assert (drawn(one) != 255).any()


def test_a_long_legend_makes_the_chart_higher_and_no_wider():
  few = [by_layer.Series("a", LAYERS, LAYERS, "#ff0000")]
  many = [
    by_layer.Series(f"step {k},000", LAYERS, LAYERS, "#ff0000")
    for k in range(20)
  ]
  few, many = drawn(*few), drawn(*many)
  assert many.shape[1] == few.shape[1] == frame.WIDTH
  assert many.shape[0] > few.shape[0] + 50


def test_ticks_of_layers_are_whole_numbers_that_do_not_meet():
  for depth in (1, 2, 12, 24, 48, 200):
    layers = np.arange(1, depth + 1, dtype=float)
    axis = by_layer.counting_axis(layers)
    values = [value for value, _ in axis.ticks]
    assert all(value == int(value) for value in values)
    places = [axis.place(value) for value in values]
    assert np.diff(places).min(initial=np.inf) > 15
    assert len(values) >= min(depth, 5)
