"""Accuracy against a few counts."""

import re
import xml.etree.ElementTree

from vit_jax.config.evaluator_declarations import Column
from vit_jax.report.figures import fewshot
from vit_jax.report.measures import Cell, Curve

COLUMN = Column("accuracy", "accuracy", "percent", decimals=1)


def curve(name, values):
  """A curve of (mean, deviation) by count."""
  return Curve(name, {k: Cell(*v, COLUMN) for k, v in values.items()})


def test_each_row_is_a_line_with_its_points_named():
  rows = [
    curve("<a>", {1: (0.5, 0.1), 10: (0.7, None)}),
    curve("b", {1: (0.4, None), 10: (0.9, None)}),
  ]
  figure = fewshot.draw(rows, label="Accuracy", x_label="neighbours")
  root = xml.etree.ElementTree.fromstring(figure)
  titles = [one.text for one in root.iter("title")]
  assert titles == [
    "<a>, 1 neighbours: 50.0 ± 10.0",
    "<a>, 10 neighbours: 70.0",
    "b, 1 neighbours: 40.0",
    "b, 10 neighbours: 90.0",
  ]
  assert len(re.findall('class="bar ', figure)) == 1
  assert "<a>" not in figure


def test_better_is_higher_and_more_is_further_right():
  row = curve("a", {1: (0.5, None), 10: (0.7, None)})
  figure = fewshot.draw([row], label="Accuracy")
  (x0, y0), (x1, y1) = re.findall(r"translate\(([\d.]+) ([\d.]+)\)", figure)
  assert float(x0) < float(x1) and float(y0) > float(y1)
  assert "examples per class" in figure


def test_without_values_there_is_no_figure():
  assert fewshot.draw([], label="Accuracy") is None
  nothing = curve("a", {1: (float("nan"), None)})
  assert fewshot.draw([nothing], label="Accuracy") is None
