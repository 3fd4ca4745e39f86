"""Scatters: where points fall, and what tells them apart."""

import re
import xml.etree.ElementTree

import pytest

from vit_jax.report.figures import scatter


def point(x, y, std=None):
  return scatter.Point(x, y, f"at {x:g} <&>", std)


def draw(*clouds):
  return scatter.draw(clouds, unit="top-1", x_label="cost", label="Points")


def places(figure, kind):
  """Pixel positions of markers; the legend's have no title of a point."""
  marks = re.findall(
    rf'translate\(([\d.]+) ([\d.]+)\)" class="{kind} [^"]*"><title>at',
    figure,
  )
  return [(float(x), float(y)) for x, y in marks]


def test_equal_factors_of_cost_are_equal_distances():
  figure = draw(
    scatter.Cloud("a", printed=(point(1, 0.2), point(10, 0.4), point(100, 0.9)))
  )
  (x0, y0), (x1, y1), (x2, y2) = places(figure, "hollow")
  assert abs((x1 - x0) - (x2 - x1)) < 0.2
  # Accuracy grows upwards, 0.5 being 2.5 times 0.2.
  assert abs((y1 - y2) - 2.5 * (y0 - y1)) < 0.3


def test_printed_points_are_hollow_and_measured_ones_full():
  figure = draw(
    scatter.Cloud("a", printed=(point(1, 0.5),), measured=(point(2, 0.6),))
  )
  assert len(places(figure, "hollow")) == len(places(figure, "marker")) == 1


def test_deviations_are_bars_around_their_point():
  figure = draw(
    scatter.Cloud("a", measured=(point(1, 0.5, 0.1), point(9, 0.9)))
  )
  ((_, y), _) = places(figure, "marker")
  ((low, high),) = re.findall(r'y1="([\d.]+)" y2="([\d.]+)" class="bar', figure)
  assert abs((float(low) + float(high)) / 2 - y) < 0.2


@pytest.mark.parametrize("deviation", [None, 0.05])
@pytest.mark.parametrize("least", [0.2, 0.97, 1.0])
def test_no_accuracy_is_above_all_images(least, deviation):
  """A round tick above 100 % would be of nothing that can be."""
  figure = draw(
    scatter.Cloud("a", measured=(point(1, least), point(9, 1.0, deviation)))
  )
  ticks = re.findall(r">([\d.]+)%<", figure)
  assert max(map(float, ticks)) == 100
  (*_, (_, y)) = places(figure, "marker")
  bars = re.findall(r'y1="([\d.]+)" y2="([\d.]+)" class="bar', figure)
  assert len(bars) == (deviation is not None)
  assert all(min(map(float, ends)) == pytest.approx(y) for ends in bars)


def test_joined_points_are_joined_along_x():
  cloud = scatter.Cloud(
    "a", measured=(point(100, 0.9), point(1, 0.1)), is_joined=True
  )
  (path,) = re.findall(
    r'd="M([\d.]+) [\d.]+L([\d.]+) [^"]*" class="line', draw(cloud)
  )
  assert float(path[0]) < float(path[1])


def test_words_are_escaped_and_the_figure_is_xml():
  figure = draw(scatter.Cloud("<b>", printed=(point(1, 0.5), point(2, 0.6))))
  xml.etree.ElementTree.fromstring(figure)
  assert "<b>" not in figure


def test_nothing_to_draw_gives_no_figure():
  assert draw() is None
  assert draw(scatter.Cloud("a")) is None
