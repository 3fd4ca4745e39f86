"""Accuracy against a few counts."""

import re
import xml.etree.ElementTree

from vit_jax.report.fewshot import Cell, Row
from vit_jax.report.figures import fewshot


def test_each_row_is_a_line_with_its_points_named():
  rows = [
    Row("<a>", {1: Cell(0.5, 0.1), 10: Cell(0.7, None)}),
    Row("b", {1: Cell(0.4, None), 10: Cell(0.9, None)}),
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
  row = Row("a", {1: Cell(0.5, None), 10: Cell(0.7, None)})
  figure = fewshot.draw([row], label="Accuracy")
  (x0, y0), (x1, y1) = re.findall(r"translate\(([\d.]+) ([\d.]+)\)", figure)
  assert float(x0) < float(x1) and float(y0) > float(y1)
  assert "examples per class" in figure


def test_without_values_there_is_no_figure():
  assert fewshot.draw([], label="Accuracy") is None
  nothing = Row("a", {1: Cell(float("nan"), None)})
  assert fewshot.draw([nothing], label="Accuracy") is None
